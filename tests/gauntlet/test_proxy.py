"""The proxy passes on what it is given, and cuts where it is told to: after the commit, before the answer."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from gauntlet.arena.links import Link


@pytest.fixture
def link(database: str, open_directory: Path) -> Generator[Link]:
    address = conninfo_to_dict(database)
    target = Path(str(address["host"])) / f".s.PGSQL.{address.get('port') or 5432}"
    if not target.exists():
        pytest.skip("the server is not reached by a file")
    running = Link("link", open_directory, target, dict(os.environ))
    yield running
    running.kill()


@pytest.fixture
def through(link: Link, database: str) -> str:
    return link.dsn(str(conninfo_to_dict(database)["dbname"]))


def test_what_is_asked_is_answered(through: str) -> None:
    with psycopg.connect(through) as conn:
        rows = conn.execute("select n, repeat('x', n) from generate_series(1, 3000) as n").fetchall()
    assert [number for number, _ in rows] == list(range(1, 3001))


def test_a_reply_that_is_cut_leaves_a_commit_behind(
    link: Link, through: str, conn: psycopg.Connection[object]
) -> None:
    link.order(do="cut", word="submit_job", how="reply", times=1)
    with pytest.raises(psycopg.OperationalError), psycopg.connect(through, autocommit=True) as client:
        client.execute("select holdfast.submit_job('a', 'me', 'default')")

    assert conn.execute("select count(*) from holdfast.jobs").fetchone() == (1,)


def test_a_request_that_is_cut_leaves_nothing_behind(
    link: Link, through: str, conn: psycopg.Connection[object]
) -> None:
    link.order(do="cut", word="submit_job", how="request", times=1)
    with pytest.raises(psycopg.OperationalError), psycopg.connect(through, autocommit=True) as client:
        client.execute("select holdfast.submit_job('a', 'me', 'default')")

    assert conn.execute("select count(*) from holdfast.jobs").fetchone() == (0,)


def test_a_statement_prepared_before_is_known_by_its_text(link: Link, through: str) -> None:
    with psycopg.connect(through, autocommit=True) as client:
        client.execute("select 'a needle', %s::int", [1], prepare=True)
        link.order(do="cut", word="needle", how="middle", times=1)
        with pytest.raises(psycopg.OperationalError):
            client.execute("select 'a needle', %s::int", [2], prepare=True)


def test_all_connections_can_be_reset(link: Link, through: str) -> None:
    with psycopg.connect(through, autocommit=True) as client:
        link.order(do="reset")
        with pytest.raises(psycopg.OperationalError):
            client.execute("select 1")


def test_a_proxy_that_two_have_killed_is_started_once(link: Link, through: str) -> None:
    """The second would find its port taken, and be remembered in place of the one that runs."""
    link.kill()
    link.kill()
    link.start()
    running = link.process
    link.start()

    assert link.process is running
    with psycopg.connect(through) as conn:
        assert conn.execute("select 1").fetchone() == (1,)
