"""Small releases of an imaginary engine, to upgrade from one to the next."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from holdfast.engine import dump, installer
from holdfast.engine.source import SIGNATURES_FILE, Source, read

THINGS = {"0001_things.sql": "create table things (id integer primary key, name text not null);"}
COUNT = """
create or replace function count_things() returns bigint
language sql set search_path from current
as 'select count(*) from things';
"""
LISTED = "create or replace view listed_things as select id, name from things;"
FUNCTIONS = {"10_count.sql": COUNT, "20_listed.sql": LISTED}


class Releases:
    """Write releases as ours is written; the signatures come from an installation in a scratch schema."""

    def __init__(self, directory: Path, conn: psycopg.Connection[Any]) -> None:
        self._directory = directory
        self._conn = conn
        self._numbers = itertools.count()

    def make(
        self,
        functions: Mapping[str, str] = FUNCTIONS,
        migrations: Mapping[str, str] = THINGS,
        *,
        release: str = "1.0",
    ) -> Source:
        directory = self._directory / f"{next(self._numbers)}"
        _write(directory / "migrations", migrations)
        _write(directory / "functions", functions)
        installer.install(self._conn, "scratch", source=read(directory, release))
        (directory / SIGNATURES_FILE).write_text(dump.signatures(self._conn, "scratch"))
        self._conn.execute("drop schema scratch cascade")
        return read(directory, release)


def _write(directory: Path, files: Mapping[str, str]) -> None:
    directory.mkdir(parents=True)
    for name, sql in files.items():
        (directory / name).write_text(sql)
