"""By what name the server was called, and whether another site sent the browser here.

Browsers say where a request comes from and pages cannot make them lie. Programs say nothing, and need not.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from holdfast.web.problems import Problem
from holdfast.web.settings import WebSettings, is_loopback

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Origins:
    """Names that are ours. A server on loopback goes by no other, so that no name can be bent towards it.

    One that can be reached from elsewhere has names we do not know, and asks everybody who they are.
    """

    def __init__(self, settings: WebSettings) -> None:
        ours = {_bare(host) for host in (*settings.allow_hosts, settings.host)} | _LOOPBACK
        any_name = not is_loopback(settings.host) and not settings.allow_hosts
        self._ours = None if any_name else ours

    def check_host(self, headers: Headers) -> None:
        """Raise unless the server goes by the name it was called by."""
        host = _host(headers.get("host", ""))
        if host is None or (self._ours is not None and host[0] not in self._ours):
            raise Problem(
                403,
                "Unknown host",
                "This server does not go by the name it was called by; --allow-host NAME adds one.",
            )

    def check_origin(self, headers: Headers) -> None:
        """Raise if the page of another site made the browser ask for a change."""
        site = headers.get("sec-fetch-site")
        origin = headers.get("origin")
        elsewhere = site is not None and site not in ("same-origin", "none")
        if elsewhere or (origin is not None and not _same(origin, headers.get("host", ""))):
            raise Problem(403, "Another site", "A page of another site may not change anything here.")


def _same(origin: str, host: str) -> bool:
    parts = urlsplit(origin)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    ours = _host(host)
    theirs = _host(parts.netloc)
    if default is None or ours is None or theirs is None:
        return False
    return ours[0] == theirs[0] and (ours[1] or default) == (theirs[1] or default)


def _host(text: str) -> tuple[str, int | None] | None:
    """Name and port; None if it is neither."""
    try:
        parts = urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    plain = bool(name) and parts.netloc == text and "@" not in text
    return (_bare(name or ""), port) if plain else None


def _bare(name: str) -> str:
    return name.strip("[]").rstrip(".").lower()
