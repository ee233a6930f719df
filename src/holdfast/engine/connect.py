"""Open one connection for a command, and say why not without ever showing a password."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from holdfast.config import CONNECT_TIMEOUT_S
from holdfast.errors import DatabaseUnavailable, InvalidArgument

# The user of a URL, up to the last @: what libpq takes for a host name may be the rest of a password.
_USERINFO = re.compile(r"^\w+://(?P<userinfo>.*)@")


def connect(dsn: str, application_name: str = "holdfast") -> psycopg.Connection[Any]:
    """Connect in autocommit mode; raise InvalidArgument or DatabaseUnavailable in one line."""
    facts = _facts(dsn)
    options: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": application_name}
    try:
        return psycopg.connect(
            dsn, autocommit=True, **{key: options[key] for key in options if key not in facts}
        )
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            f"cannot connect to {_place(facts)}: {' '.join(str(error).split())}"
        ) from None


def _facts(dsn: str) -> dict[str, Any]:
    userinfo = _USERINFO.match(dsn)
    if userinfo and re.search(r"[@/?#\[\]\s]", userinfo["userinfo"]):
        raise InvalidArgument(
            "the database URL cannot be read: write @ / ? # and the like in a password as %40 %2F %3F %23"
        )
    try:
        return dict(conninfo_to_dict(dsn))
    except psycopg.ProgrammingError:
        # The driver's message quotes what it could not read, which may be the password.
        raise InvalidArgument(
            "the database URL cannot be read: "
            "expected postgresql://user:password@host:port/database or key=value pairs"
        ) from None


def _place(facts: dict[str, Any]) -> str:
    shown = [f"{key}={facts[key]}" for key in ("host", "port", "dbname", "user") if facts.get(key)]
    return " ".join(shown) or "the default database"
