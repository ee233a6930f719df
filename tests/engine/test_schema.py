"""The committed description of an installation is what installing gives. `make schema` writes it anew."""

from __future__ import annotations

import os

import pytest

from holdfast.engine import dump, installer
from holdfast.engine.source import HERE, SIGNATURES_FILE
from tests.conftest import Connect


@pytest.mark.parametrize(
    ("name", "describe"), [("schema.sql", dump.dump), (SIGNATURES_FILE, dump.signatures)]
)
def test_the_committed_description_is_current(
    blank_database: str, connect: Connect, name: str, describe: dump.Describe
) -> None:
    conn = connect(blank_database)
    installer.install(conn)
    found = describe(conn, "holdfast")
    if os.environ.get("HOLDFAST_WRITE_SCHEMA"):
        (HERE / name).write_text(found)
    assert (HERE / name).read_text() == found, "run: make schema"


def test_a_description_does_not_depend_on_the_schemas_name(blank_database: str, connect: Connect) -> None:
    conn = connect(blank_database)
    installer.install(conn)
    installer.install(conn, "other")
    assert dump.signatures(conn, "other") == dump.signatures(conn, "holdfast")
    assert dump.dump(conn, "other").replace("other", "holdfast") == dump.dump(conn, "holdfast")


def test_describing_leaves_nothing_behind(blank_database: str, connect: Connect) -> None:
    conn = connect(blank_database)
    installer.install(conn)
    before = dump.signatures(conn)
    assert dump.signatures(conn) == before
    assert installer.status(conn).state == "current"
    assert conn.execute("select to_regclass('holdfast._objects')").fetchone() == (None,)
