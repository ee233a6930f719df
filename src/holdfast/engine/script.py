"""An installation as SQL text: what the installer runs, and the whole of it as one script for psql.

What a release brings is told to the SQL in `bookkeeping/` by settings of the transaction, which psql can make
as well. Values are written into the text: psql has no parameters. None comes from outside; schema names are
checked, the rest are numbers, names of our files, checksums, and signatures of our functions.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.config import LOCK_TIMEOUT_S, schema_name
from holdfast.engine.source import Migration, Source, SqlFile, bookkeeping


def script(schema: str, source: Source) -> str:
    """The whole installation for psql: from nothing, or from any earlier version."""
    return "\n".join(_parts(schema_name(schema), source)) + "\n"


def settings(schema: str, lock_timeout_s: float) -> str:
    """Make the transaction independent of the session's settings; it never waits for a lock for ever."""
    return (
        f"set local lock_timeout = '{round(lock_timeout_s * 1000)}ms';\n"
        "set local statement_timeout = 0;\n"
        "set local client_min_messages = warning;\n"
        f'set local search_path = "{schema}", pg_catalog, pg_temp;'
    )


def lock(schema: str) -> str:
    """One installation at a time in a schema; the others wait here and then find nothing to do.

    A session that found no schema before it waited remembers so, until it opens a table it has not open.
    """
    key = f"hashtextextended('holdfast.install.{schema}', 0)"
    return f"do $$ begin perform pg_advisory_xact_lock({key}); perform from pg_catalog.pg_namespace; end $$;"


def declare(source: Source) -> str:
    """Tell the transaction what this release brings."""
    signatures = "\n".join(source.signatures)
    checksums = "\n".join(f"{each.version} {each.checksum}" for each in source.migrations)
    return (
        f"set local holdfast.release = {_literal(source.release)};\n"
        f"set local holdfast.version = {_literal(str(source.version))};\n"
        f"set local holdfast.checksums = {_literal(checksums)};\n"
        f"set local holdfast.fingerprint = {_literal(source.fingerprint)};\n"
        f"set local holdfast.signatures = {_literal(signatures)};"
    )


def record_migration(migration: Migration) -> str:
    values = f"{migration.version}, {_literal(migration.name)}, {_literal(migration.checksum)}"
    return f"insert into migrations (version, name, checksum) values ({values});"  # noqa: S608


def _parts(schema: str, source: Source) -> Iterator[str]:
    yield _head(schema, source)
    yield "begin isolation level read committed read write;"
    yield settings(schema, LOCK_TIMEOUT_S)
    yield "\n-- What this release brings, for the statements around its files."
    yield declare(source)
    yield lock(schema)
    yield f'create schema if not exists "{schema}";'
    yield from _only_if("to_regclass('installation') is null", bookkeeping("tables"))
    yield bookkeeping("refuse")
    # Asked before the migrations: one of them may drop a view that the functions bring back.
    yield _ask("holdfast_behind", _BEHIND)
    for migration in source.migrations:
        yield _banner("migrations", migration)
        absent = f"not exists (select from migrations where version = {migration.version})"
        yield from _only_if(absent, migration.sql, record_migration(migration))
    yield "\\if :holdfast_behind"
    yield bookkeeping("objects")
    yield bookkeeping("drop_stale")
    for file in source.functions:
        yield _banner("functions", file)
        yield file.sql
    yield bookkeeping("record_functions")
    yield "\\endif"
    yield "commit;"


_BEHIND = (
    "(select count(*) from migrations) < current_setting('holdfast.version')::integer or not exists "
    "(select from installation where functions_fingerprint = current_setting('holdfast.fingerprint'))"
)


def _head(schema: str, source: Source) -> str:
    return (
        f'-- Holdfast {source.release}: install schema "{schema}" or bring it up to date.\n'
        "-- For psql, as the role that shall own it:  psql --no-psqlrc --dbname=... --file=...\n"
        "-- One transaction: it does everything or nothing, and run again it changes nothing.\n"
        "\\set ON_ERROR_STOP on\n"
        "\\encoding UTF8"
    )


def _banner(directory: str, file: SqlFile) -> str:
    return f"\n-- ---------- {directory}/{file.name} ----------"


def _ask(variable: str, condition: str) -> str:
    return f"select {condition} as {variable} \\gset"


def _only_if(condition: str, *statements: str) -> list[str]:
    return [_ask("holdfast_absent", condition), "\\if :holdfast_absent", *statements, "\\endif"]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
