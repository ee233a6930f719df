"""After kill -9: of the server, of its starter, in the midst of making it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import psycopg
import pytest

from holdfast import embedded
from holdfast.embedded import process
from holdfast.embedded.account import server_account
from holdfast.embedded.places import PORT, Layout
from holdfast.errors import EmbeddedError
from tests.embedded.users import obedient
from tests.embedded.waiting import stopped, wait_for

ROWS = 50_000


def kill_9(server: embedded.Server) -> None:
    os.kill(server.pid, signal.SIGKILL)


def test_a_server_killed_with_9_recovers_with_all_rows(made: Path) -> None:
    with embedded.start(made) as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("create table jobs as select generate_series(1, %s) as id", (ROWS,))
        kill_9(server)
        with embedded.start(made) as again, psycopg.connect(again.dsn) as connection:
            assert again.pid != server.pid
            assert connection.execute("select count(*) from jobs").fetchone() == (ROWS,)


def test_a_server_killed_together_with_its_users_recovers(made: Path) -> None:
    with obedient(made) as user:
        pid = int(user.hears())
        os.kill(pid, signal.SIGKILL)
        user.kill()
    with embedded.start(made) as server:
        assert server.pid != pid


def test_killed_in_turn_with_everything_again_and_again_it_still_starts(made: Path) -> None:
    for _ in range(5):
        with obedient(made) as user:
            os.kill(int(user.hears()), signal.SIGKILL)
    with embedded.start(made) as server:
        psycopg.connect(server.dsn).close()


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="orphans are found by /proc")
def test_a_busy_orphan_of_a_killed_server_does_not_block_the_next(made: Path) -> None:
    with embedded.start(made) as server:
        busy = psycopg.connect(server.dsn)
        endless = threading.Thread(target=_run_until_cut, args=(busy,))
        endless.start()
        with psycopg.connect(server.dsn, autocommit=True) as watching:
            wait_for(lambda: _is_busy(watching, busy.info.backend_pid))
        kill_9(server)  # the busy one notices nothing: it looks after its parent only when it waits
        with embedded.start(made) as again:
            assert again.pid != server.pid
        endless.join()
        busy.close()


def _run_until_cut(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.OperationalError):
        connection.execute("do $$ begin loop end loop; end $$")


def _is_busy(watching: psycopg.Connection, pid: int) -> bool:
    found = watching.execute("select state from pg_stat_activity where pid = %s", (pid,)).fetchone()
    return found == ("active",)


def test_the_number_of_a_killed_server_may_be_another_process_now(made: Path) -> None:
    account = server_account(made / "data")
    # The server's user must be able to signal it, else even PostgreSQL sees that it is no server.
    other = subprocess.Popen(["sleep", "60"], user=account.user, group=account.group, cwd="/")
    try:
        note = f"{other.pid}\n{made}/data\n1\n{PORT}\n{made}/socket\n\n  5432001 1\nready\n"
        for path in (made / "data/postmaster.pid", made / f"socket/.s.PGSQL.{PORT}.lock"):
            path.write_text(note)
            path.chmod(0o600)
            os.chown(path, account.uid, account.gid)
        with embedded.start(made) as server:
            assert server.pid != other.pid
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_shell_that_stands_in_the_data_directory_is_no_orphan(made: Path) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=made / "data") as shell:
        process.end_orphans(Layout(made))
        shell.terminate()
        assert shell.wait() == -signal.SIGTERM  # and of nothing that came before


def test_a_starter_killed_while_making_the_cluster_leaves_nothing_in_the_way(directory: Path) -> None:
    with obedient(directory) as user:
        wait_for(lambda: (directory / "data.new/PG_VERSION").exists() or (directory / "data").exists())
        user.kill()
    with embedded.start(directory) as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_starter_killed_while_starting_leaves_a_server_or_none_but_nothing_between(made: Path) -> None:
    log = made / "server.log"
    for _ in range(5):
        before = log.stat().st_size
        with obedient(made) as user:
            wait_for(lambda: log.stat().st_size > before)  # the server has begun to start  # noqa: B023
            user.kill()
        with embedded.start(made) as server:
            psycopg.connect(server.dsn).close()
    assert stopped(made)


def test_a_start_that_exceeds_its_limit_says_so_and_leaves_no_server(made: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"not ready after .* see .*server\.log"):
        embedded.start(made, limit_s=-1)
    wait_for(lambda: stopped(made))


def test_a_long_recovery_is_waited_for_and_told(made: Path) -> None:
    told: list[str] = []
    with embedded.start(made, settings={"autovacuum": "off"}) as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("create table jobs as select generate_series(1, %s) as id", (ROWS,))
        kill_9(server)
        wait_for(lambda: stopped(made))
        # A log directory that is slow to read: the first archive command never ends before we let it.
        gate = made / "gate"
        os.mkfifo(gate, 0o666)
        gate.chmod(0o666)
        _ask_for_recovery(made)
        slow = {"restore_command": f"cat {gate} > /dev/null; false"}
        opener = threading.Timer(1.5, gate.write_text, args=("go",))
        opener.start()
        with (
            embedded.start(made, log=told.append, settings=slow) as again,
            psycopg.connect(again.dsn) as connection,
        ):
            assert connection.execute("select count(*) from jobs").fetchone() == (ROWS,)
        opener.join()
    assert told == ["PostgreSQL is replaying its log after an unclean stop"]


def _ask_for_recovery(made: Path) -> None:
    signal_file = made / "data/recovery.signal"
    signal_file.touch()
    account = server_account(made / "data")
    os.chown(signal_file, account.uid, account.gid)
