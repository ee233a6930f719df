"""Every setting once: its name, unit, default and source. Arguments win over the environment."""

from __future__ import annotations

import os
import re
import shlex

from holdfast.errors import InvalidArgument

DATABASE_URL_VARIABLES = ("HOLDFAST_DATABASE_URL", "DATABASE_URL")
"""Environment variables that name the user's own database, the stronger first."""

PG_BIN_VARIABLE = "HOLDFAST_PG_BIN"
"""Directory of the PostgreSQL programs the embedded database should use."""

HOME_VARIABLE = "HOLDFAST_HOME"
"""Directory under which embedded databases live, instead of the user's data directory."""

SCHEMA_VARIABLE = "HOLDFAST_SCHEMA"
"""Schema of the installation, for commands and for apps that name none."""

DEFAULT_SCHEMA = "holdfast"
SCHEMA_NAME_BYTES = 16
"""A NOTIFY channel has at most 63 bytes and holds the schema and the queue name; hence 16 and 40."""
QUEUE_NAME_BYTES = 40

PAYLOAD_BYTES = 1024 * 1024
"""Largest payload or result, counted as encoded JSON or raw bytes."""

CALL_TIMEOUT_S = 10.0
"""Deadline of one database call, unless the caller names another."""

LOCK_TIMEOUT_S = 5.0
"""How long one statement of an installation waits for a lock, and with it everybody who queued behind it."""

CONNECT_TIMEOUT_S = 10
"""How long a command waits for a connection, in whole seconds because libpq counts so."""

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]*")


def database_url(argument: str | None = None) -> str | None:
    """The user's database: the argument, else the environment, else None (the embedded database)."""
    if argument:
        return argument
    return next((os.environ[name] for name in DATABASE_URL_VARIABLES if os.environ.get(name)), None)


def default_schema() -> str:
    """The schema of whoever names none: that of the environment, else our own."""
    return os.environ.get(SCHEMA_VARIABLE) or DEFAULT_SCHEMA


def migrate_command(schema: str) -> str:
    """What to type so that this schema is installed or brought up to date."""
    if schema == DEFAULT_SCHEMA == default_schema():
        return "holdfast migrate up"
    return f"holdfast migrate up --schema {shlex.quote(schema)}"


def schema_name(name: str) -> str:
    """Return the name if an installation may have it: it becomes an identifier and part of a channel name."""
    if not _SCHEMA_NAME.fullmatch(name) or name.startswith("pg_"):
        raise InvalidArgument(
            f"schema name {name!r}: use lower-case letters, digits and underscores, "
            "not starting with a digit or pg_"
        )
    if name == "public":
        raise InvalidArgument('schema name "public" is everybody\'s; Holdfast needs a schema of its own')
    if len(name) > SCHEMA_NAME_BYTES:
        raise InvalidArgument(f"schema name {name!r} has {len(name)} bytes; at most {SCHEMA_NAME_BYTES} fit")
    return name
