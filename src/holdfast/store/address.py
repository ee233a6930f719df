"""Where the database is, as it may be shown: never with its password."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import InvalidArgument

CONNECT_TIMEOUT_S: Final = 5
"""For each host; short enough to try a second one within the deadline of a call. libpq counts in seconds."""

# The user of a URL, up to the last @: what libpq takes for a host name may be the rest of a password.
_USERINFO: Final = re.compile(r"^\w+://(?P<userinfo>.*)@")


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """A database address that was understood, and the options we add where it names none."""

    dsn: str
    place: str
    options: dict[str, Any]

    def __repr__(self) -> str:
        return f"Address({self.place})"


def understand(dsn: str) -> Address:
    """Read a database address; raise InvalidArgument, without showing it, if it cannot be read."""
    userinfo = _USERINFO.match(dsn)
    if userinfo and re.search(r"[@/?#\[\]\s]", userinfo["userinfo"]):
        raise InvalidArgument(
            "the database URL cannot be read: write @ / ? # and the like in a password as %40 %2F %3F %23"
        )
    try:
        facts = dict(conninfo_to_dict(dsn))
    except psycopg.ProgrammingError:
        # The driver's message quotes what it could not read, which may be the password.
        raise InvalidArgument(
            "the database URL cannot be read: "
            "expected postgresql://user:password@host:port/database or key=value pairs"
        ) from None
    shown = [f"{key}={facts[key]}" for key in ("host", "port", "dbname", "user") if facts.get(key)]
    return Address(dsn, " ".join(shown) or "the default database", _options(facts))


def _options(facts: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {
        "application_name": "holdfast",
        "client_encoding": "UTF8",
        "connect_timeout": CONNECT_TIMEOUT_S,
    }
    if "," in str(facts.get("host", "")) and "PGTARGETSESSIONATTRS" not in os.environ:
        # Several hosts are a primary and its standbys: only the primary can answer us.
        options["target_session_attrs"] = "read-write"
    return {name: value for name, value in options.items() if facts.get(name) is None}
