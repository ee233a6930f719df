"""Install the SQL engine into a schema of the user's database, bring it up to date, say how it stands.

Everything happens in one transaction under one lock, so that ten processes may try at once and none ever
sees half an installation. Migrations are applied once, in order. Functions and views are replaced in place,
because workers are calling them, roles hold grants on them and users build views upon them; only what cannot
be replaced is dropped first, and never by cascade.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from holdfast.config import DEFAULT_SCHEMA, LOCK_TIMEOUT_S, schema_name
from holdfast.engine import script as text
from holdfast.engine.blockers import Watch
from holdfast.engine.source import Migration, Source, bookkeeping, shipped
from holdfast.engine.status import Installed, Status, compare, obstacle
from holdfast.errors import DatabaseUnavailable, InstallationRefused, InvalidArgument

Connection = psycopg.Connection[Any]

OLDEST_SERVER = 14
ATTEMPTS = 3

# Lost races that another attempt wins: for a lock, or for a role that every schema of the server shares.
_RACES: tuple[type[psycopg.Error], ...] = (
    pg.LockNotAvailable,
    pg.DeadlockDetected,
    pg.UniqueViolation,
    pg.InternalError_,
)


@dataclass(frozen=True, slots=True)
class Report:
    """What an installation did. Nothing applied and no functions changed: it was current already."""

    schema: str
    version: int
    applied: tuple[Migration, ...] = ()
    functions_changed: bool = False


def install(
    conn: Connection,
    schema: str = DEFAULT_SCHEMA,
    *,
    source: Source | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
    attempts: int = ATTEMPTS,
) -> Report:
    """Install or upgrade a schema; return what was done. The connection must not be in a transaction.

    Raises SchemaTooNew, InstallationRefused (naming what stands in the way) or, if a lock was not to be had,
    DatabaseUnavailable (naming who keeps it). Then nothing was changed.
    """
    schema, source = schema_name(schema), source or shipped()
    _require_usable(conn)
    found = status(conn, schema, source=source)
    if found.state == "current":
        return Report(schema, found.version)
    attempt = 1
    while True:
        with Watch(conn, interval_s=lock_timeout_s / 5) as watch:
            try:
                return _install(conn, schema, source, lock_timeout_s, watch)
            except _RACES as race:
                if attempt >= attempts:
                    raise DatabaseUnavailable(
                        f'schema "{schema}": {_why_lost(race, watch, attempts)}'
                    ) from race
        # Everyone who came after us queued behind our wait; let them pass before we wait again.
        time.sleep(lock_timeout_s / 5)
        attempt += 1


def status(conn: Connection, schema: str = DEFAULT_SCHEMA, *, source: Source | None = None) -> Status:
    """Say how the installation stands to this release; reads only."""
    schema = schema_name(schema)
    with _explained(conn, schema), conn.transaction():
        return compare(source or shipped(), _read(conn, schema), schema)


def require_current(conn: Connection, schema: str = DEFAULT_SCHEMA, *, source: Source | None = None) -> None:
    """Raise SchemaMissing, SchemaTooOld or SchemaTooNew unless this release fits the installation."""
    if error := obstacle(status(conn, schema, source=source)):
        raise error


def script(schema: str = DEFAULT_SCHEMA, *, source: Source | None = None) -> str:
    """What install would do, as a script for psql, for those who let no program change their database."""
    return text.script(schema, source or shipped())


def _install(conn: Connection, schema: str, source: Source, lock_timeout_s: float, watch: Watch) -> Report:
    with _explained(conn, schema, but=_RACES), conn.transaction():
        # A snapshot per statement: after waiting for the lock we must see what its last holder did.
        _run(conn, "set transaction isolation level read committed, read write")
        watch.pid = _value(conn, "select pg_backend_pid()")
        _run(conn, text.settings(schema, lock_timeout_s))
        _run(conn, text.lock(schema))
        found = compare(source, _read(conn, schema), schema)
        if found.state == "current":
            return Report(schema, found.version)
        if found.state in ("newer", "changed") and (error := obstacle(found)):
            raise error
        _apply(conn, schema, source, found)
        return Report(schema, source.version, applied=found.pending, functions_changed=True)


def _apply(conn: Connection, schema: str, source: Source, found: Status) -> None:
    _run(conn, text.declare(source))
    if found.state == "missing":
        # Not `if not exists`: that asks for the right to create schemas even where the schema is there.
        if not _value(conn, "select exists (select from pg_namespace where nspname = %s)", schema):
            _run(conn, f'create schema "{schema}"')
        _run(conn, bookkeeping("tables"))
    for migration in found.pending:
        _run(conn, migration.sql, file=migration.name)
        _run(conn, text.record_migration(migration))
    # Also when only a migration is new: it may have dropped a view to change a column under it.
    _run(conn, bookkeeping("objects"))
    _run(conn, bookkeeping("drop_stale"))
    for file in source.functions:
        _run(conn, file.sql, file=file.name)
    _run(conn, bookkeeping("record_functions"))


def _read(conn: Connection, schema: str) -> Installed | None:
    if not _value(conn, "select to_regclass(%s) is not null", f"{schema}.installation"):
        return None
    cursor = conn.cursor(row_factory=tuple_row)
    migrations, installation = Identifier(schema, "migrations"), Identifier(schema, "installation")
    cursor.execute(SQL("select version, checksum from {}").format(migrations))
    checksums: dict[int, str] = dict(cursor.fetchall())
    cursor.execute(SQL("select functions_fingerprint, release from {}").format(installation))
    fingerprint, release = cursor.fetchone() or ("", "0")
    return Installed(checksums, fingerprint, release)


def _require_usable(conn: Connection) -> None:
    if conn.info.transaction_status != TransactionStatus.IDLE:
        raise InvalidArgument("install needs a connection that is not in a transaction")
    major, minor = divmod(conn.info.server_version, 10000)
    if major < OLDEST_SERVER:
        raise InstallationRefused(
            f"Holdfast needs PostgreSQL {OLDEST_SERVER} or newer; this server is {major}.{minor}"
        )
    # The driver hands out text of other encodings as bytes, or fails on what they lack.
    encoding = conn.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InstallationRefused(
            f"Holdfast needs a database with encoding UTF8; this one has {encoding}. "
            "Make one with: create database ... encoding 'UTF8' template template0"
        )


@contextmanager
def _explained(
    conn: Connection, schema: str, *, but: tuple[type[psycopg.Error], ...] = ()
) -> Generator[None]:
    """Turn the driver's errors into ours, but for those that the caller handles."""
    try:
        yield
    except but:
        raise
    except pg.InsufficientPrivilege as error:
        raise InstallationRefused(
            f'role "{conn.info.user}" may not do this to schema "{schema}": {_said(error)}. '
            "Use the role that owns the schema, or let a superuser run the output of: holdfast migrate sql"
        ) from error
    except pg.DependentObjectsStillExist as error:
        raise InstallationRefused(
            f'something built upon schema "{schema}" stands in the way: {_said(error)}. '
            "Drop it, run this again, and create it anew; nothing was changed"
        ) from error
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"the database gave no answer: {_said(error)}") from error
    except psycopg.Error as error:
        raise InstallationRefused(f'schema "{schema}": {_said(error)}. Nothing was changed') from error


def _said(error: psycopg.Error) -> str:
    """The file an error is about, the server's message and its detail, on one line."""
    files: list[str] = getattr(error, "__notes__", [])
    said = [*files, error.diag.message_primary or str(error), error.diag.message_detail]
    return ": ".join(" ".join(part.split()) for part in said if part)


def _why_lost(race: psycopg.Error, watch: Watch, attempts: int) -> str:
    if not isinstance(race, pg.LockNotAvailable):
        return f"{attempts} attempts failed, the last with: {_said(race)}. Nothing was changed"
    holders = "; ".join(str(blocker) for blocker in watch.seen) or "a session that could not be seen"
    return (
        f"a lock was not to be had in {attempts} attempts. In the way: {holders}. "
        "End that transaction or try again later; nothing was changed"
    )


def _run(conn: Connection, statements: str, file: str | None = None) -> None:
    """Run our own SQL; without parameters the text goes as it is, however many statements it has."""
    try:
        conn.execute(statements.encode())
    except psycopg.Error as error:
        if file:
            error.add_note(file)
        raise


def _value(conn: Connection, query: LiteralString, *parameters: object) -> Any:
    row = conn.cursor(row_factory=tuple_row).execute(query, parameters or None).fetchone()
    return row[0] if row else None
