"""Starting: a first time, again, together with others, and what the server is then like."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from holdfast import embedded
from holdfast.embedded import locks
from holdfast.errors import EmbeddedError, InvalidArgument
from tests.embedded.users import obedient


def test_a_first_start_gives_an_empty_database_that_answers(directory: Path) -> None:
    told: list[str] = []

    with embedded.start(directory, log=told.append) as server, psycopg.connect(server.dsn) as connection:
        assert connection.info.dbname == "holdfast"
        assert connection.info.user == "holdfast"
        assert connection.info.server_version // 10_000 == server.version
        assert connection.execute(
            "select count(*) from pg_tables where schemaname = 'public'"
        ).fetchone() == (0,)
    assert told == [f"making a private PostgreSQL {server.version} in {directory}"]


def test_what_was_stored_is_there_after_a_restart(made: Path) -> None:
    with embedded.start(made) as server, psycopg.connect(server.dsn) as connection:
        connection.execute("create table kept as select 'a job' as job")
    with embedded.start(made) as again, psycopg.connect(again.dsn) as connection:
        assert again.pid != server.pid
        assert connection.execute("select job from kept").fetchone() == ("a job",)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("data_checksums", "on"),
        ("server_encoding", "UTF8"),
        ("lc_collate", "C"),
        ("listen_addresses", ""),
        ("max_connections", "100"),
        ("shared_buffers", "128MB"),
    ],
)
def test_the_server_is_safe_and_private_by_default(shared: embedded.Server, setting: str, value: str) -> None:
    query = (
        "select datcollate from pg_database where datname = current_database()"
        if setting == "lc_collate"
        else f"show {setting}"
    )
    with psycopg.connect(shared.dsn) as connection:
        assert connection.execute(query).fetchone() == (value,)


def test_data_and_socket_are_closed_to_other_users(shared: embedded.Server) -> None:
    for path in (shared.directory / "data", shared.socket_directory):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    socket = next(path for path in shared.socket_directory.iterdir() if path.is_socket())
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_even_where_someone_opened_the_socket(made: Path) -> None:
    with embedded.start(made) as server:
        for path in (server.socket_directory, *server.socket_directory.iterdir()):
            path.chmod(0o777)
        asked = subprocess.run(
            [server.bin_directory / "psql", server.dsn, "-c", "select 1"],
            user="daemon",
            group="daemon",
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert asked.returncode != 0
        assert "Peer authentication failed" in asked.stderr


def test_starting_twice_in_one_process_shares_the_server(made: Path) -> None:
    with embedded.start(made) as first:
        with embedded.start(made) as second:
            assert second.pid == first.pid
        psycopg.connect(first.dsn).close()


def test_ten_threads_starting_at_once_share_one_server(made: Path) -> None:
    with ThreadPoolExecutor(10) as threads:
        servers = list(threads.map(lambda _: embedded.start(made), range(10)))
    assert len({server.pid for server in servers}) == 1
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(embedded.Server.close, servers))
    assert not embedded.status(made).running


def test_ten_processes_starting_at_once_share_one_server(directory: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(obedient(directory)) for _ in range(10)]
        servers = {user.hears() for user in users}
        status = embedded.status(directory)

        assert servers == {str(status.pid)}
        assert set(status.users) <= {user.pid for user in users}  # empty where the system does not tell
        with psycopg.connect(status.dsn or "") as connection:
            assert connection.execute("select 1").fetchone() == (1,)


def test_who_must_wait_for_another_one_starting_is_told(made: Path) -> None:
    told: list[str] = []
    with ThreadPoolExecutor(1) as threads:
        with locks.exclusive(made / "start.lock"):
            starting = threads.submit(embedded.start, made, log=told.append)
            while not told:
                time.sleep(0.001)
            assert not starting.done()
        starting.result().close()
    assert "waiting for another process" in told[0]


def test_a_setting_of_the_caller_wins(made: Path) -> None:
    settings = {"max_connections": "7", "search_path": "it's, here"}
    with embedded.start(made, settings=settings) as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("show max_connections").fetchone() == ("7",)
        assert connection.execute("show search_path").fetchone() == ("it's, here",)


@pytest.mark.parametrize(
    "name", ["listen_addresses", "hba_file", "Work_Mem", "work_mem = 1\nlisten_addresses"]
)
def test_a_setting_that_would_open_the_server_or_is_none_is_refused(directory: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        embedded.start(directory, settings={name: "*"})
    assert not directory.exists()


def test_a_server_that_cannot_start_says_why(made: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"did not start.*max_connections"):
        embedded.start(made, settings={"max_connections": "many"})
    assert not embedded.status(made).in_use


def test_variables_for_other_servers_do_no_harm(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PGHOST": "nowhere",
        "PGPORT": "1",
        "PGUSER": "x",
        "PGDATABASE": "x",
        "PGDATA": "/x",
    }.items():
        monkeypatch.setenv(name, value)
    with embedded.start(made) as server, psycopg.connect(server.dsn) as connection:
        assert connection.info.dbname == "holdfast"


def test_a_dropped_database_is_made_again(made: Path) -> None:
    with embedded.start(made) as server:
        with psycopg.connect(server.dsn, dbname="postgres", autocommit=True) as connection:
            connection.execute("drop database holdfast")
        with embedded.start(made) as again:
            psycopg.connect(again.dsn).close()


def test_a_later_start_takes_less_than_half_a_second(made: Path) -> None:
    def seconds() -> float:
        began = time.perf_counter()
        with embedded.start(made):
            return time.perf_counter() - began

    assert min(seconds() for _ in range(3)) < 0.5  # 0.05 on an idle machine
