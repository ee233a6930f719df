"""Whose database: the caller's, the environment's, or ours."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
import pytest

from holdfast import embedded
from holdfast.errors import EmbeddedError

OWN = "postgresql://me@db.example/own"


@pytest.fixture
def home(base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_HOME", str(base / "home"))
    monkeypatch.chdir(base)
    return base / "home"


@pytest.mark.parametrize("variable", ["DATABASE_URL", "HOLDFAST_DATABASE_URL"])
def test_nothing_is_started_when_the_environment_names_a_database(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, OWN)
    monkeypatch.setenv("HOLDFAST_PG_BIN", "/nowhere")  # not even looked for
    with embedded.database_or_embedded() as database:
        assert database == embedded.Database(OWN, server=None)
    assert not home.exists()


def test_nothing_is_started_when_the_caller_names_a_database(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere")
    with embedded.database_or_embedded(OWN) as database:
        assert database.dsn == OWN
    assert not home.exists()


def test_without_a_database_the_projects_own_is_started_and_stopped(home: Path) -> None:
    with embedded.database_or_embedded() as database, psycopg.connect(database.dsn):
        assert database.server
        assert database.server.directory == embedded.default_directory()
        assert home in database.server.directory.parents
    assert not embedded.status().running


def test_on_windows_there_is_a_clear_word_instead(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    for attempt in (embedded.start, embedded.stop, embedded.status):
        with pytest.raises(EmbeddedError, match="does not run on Windows: set DATABASE_URL"):
            attempt(directory)
    assert embedded.database_or_embedded(OWN).dsn == OWN
