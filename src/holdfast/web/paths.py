"""Ids, queues and keys in addresses: any text a person may have chosen, slashes and dots included.

A path is taken apart before it is decoded, so `%2F` is part of a name and not the end of it. Clients resolve
`.` and `..` however they are written, so these two names are written `=.` and `=..`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.web.problems import Problem

_DOTS: Final = {"=.": ".", "=..": ".."}


class Name(Convertor[str]):
    """`{job_id:name}` in a route: one segment, decoded."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return _DOTS.get(value) or unquote(value)

    def to_string(self, value: str) -> str:
        return segment(value)


register_url_convertor("name", Name())


def segment(name: str) -> str:
    """A name as one segment of an address."""
    return f"={name}" if name in _DOTS.values() else quote(name, safe="")


class RawPaths:
    """Let routes see the path as it was sent; refuse one that is no text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
            try:
                path = raw.decode("ascii")
                unquote(path, errors="strict")
            except UnicodeDecodeError:
                problem = Problem(400, "Unreadable address", "The path is not percent-encoded UTF-8.")
                await problem.response()(scope, receive, send)
                return
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)
