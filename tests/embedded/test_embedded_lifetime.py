"""How long the server runs: as long as somebody uses it, however its users end."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from holdfast import embedded
from tests.embedded.users import User, obedient
from tests.embedded.waiting import stopped, wait_for

FORK_AND_EXIT = """
import os, sys
from holdfast import embedded
server = embedded.start(sys.argv[1])
child = os.fork()
if child == 0:
    sys.exit()  # runs what is registered for the exit, in the child too
os.waitpid(child, 0)
import psycopg
psycopg.connect(server.dsn).close()
print("connected", embedded.status(sys.argv[1]).running, flush=True)
"""

FORK_AND_LEAVE = """
import os, sys
from holdfast import embedded
server = embedded.start(sys.argv[1])
if os.fork() > 0:
    server.close()
    os._exit(0)
os.setsid()
sys.stdin.readline()
import psycopg
psycopg.connect(server.dsn).close()
print("connected", flush=True)
sys.stdin.readline()
"""

START_AND_CLOSE = """
import sys, psycopg
from holdfast import embedded
for _ in range(int(sys.argv[2])):
    with embedded.start(sys.argv[1]) as server:
        psycopg.connect(server.dsn).execute("select 1")
print("done", flush=True)
"""


def watchdogs(directory: Path) -> list[int]:
    """The watchdogs of a directory; /proc is Linux's."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(directory) in command and any(part.endswith(b"watchdog.py") for part in command):
            found.append(int(entry.parent.name))
    return found


linux = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")


def test_the_server_is_gone_when_its_last_user_has_closed_it(made: Path) -> None:
    first, second = embedded.start(made), embedded.start(made)
    first.close()
    first.close()  # twice is once
    assert not stopped(made)
    second.close()
    assert stopped(made)


def test_the_server_stops_when_its_last_user_exits(made: Path) -> None:
    with obedient(made) as user:
        user.hears()
        assert not stopped(made)
        assert user.exit() == 0
        assert stopped(made)


def test_the_server_stops_when_its_last_user_is_killed_with_9(made: Path) -> None:
    with obedient(made) as user:
        user.hears()
        user.kill()
    wait_for(lambda: stopped(made))


def test_the_server_stops_when_all_of_many_users_are_killed_with_9(made: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(obedient(made)) for _ in range(4)]
        for user in users:
            user.hears()
        for user in users:
            assert not stopped(made)
            user.kill()
    wait_for(lambda: stopped(made))


def test_the_server_outlives_the_one_who_started_it_while_another_uses_it(made: Path) -> None:
    with obedient(made) as starter:
        starter.hears()
        with embedded.start(made) as server:
            starter.kill()
            with psycopg.connect(server.dsn) as connection:
                assert connection.execute("select 1").fetchone() == (1,)
            assert embedded.status(made).pid == server.pid


def test_ctrl_c_in_the_terminal_of_a_user_does_not_reach_the_server(made: Path) -> None:
    with obedient(made) as starter, ExitStack() as stack:
        starter.hears()
        server = stack.enter_context(embedded.start(made))
        os.killpg(starter.pid, signal.SIGINT)  # what a terminal does
        assert starter.exit() != 0
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("select 1").fetchone() == (1,)


def test_a_kept_server_outlives_its_users_until_stop(made: Path) -> None:
    with obedient(made, "keep") as user:
        pid = int(user.hears())
        user.kill()
    with embedded.start(made) as server:  # who does not say keep does not take it back
        assert server.pid == pid
    status = embedded.status(made)
    assert (status.running, status.in_use, status.keep, status.pid) == (True, False, True, pid)

    assert embedded.stop(made)

    assert stopped(made)
    assert not embedded.status(made).keep


def test_a_server_is_kept_from_the_moment_a_later_user_says_so(made: Path) -> None:
    with embedded.start(made):
        embedded.start(made, keep=True).close()
    assert not stopped(made)


def test_keeping_ends_with_the_server_that_was_kept(made: Path) -> None:
    with embedded.start(made, keep=True) as server:
        os.kill(server.pid, signal.SIGKILL)
    embedded.start(made).close()
    assert stopped(made)


def test_those_who_come_when_the_last_one_leaves_get_a_working_server(made: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(User(START_AND_CLOSE, made, "15")) for _ in range(4)]
        assert [user.hears() for user in users] == ["done"] * 4
        assert [user.exit() for user in users] == [0] * 4
    assert stopped(made)


def test_a_forked_child_does_not_stop_its_parents_server(made: Path) -> None:
    with User(FORK_AND_EXIT, made) as parent:
        assert parent.hears() == "connected True"
        parent.exit()
    assert stopped(made)


def test_a_forked_child_uses_the_server_on_when_its_parent_is_gone(made: Path) -> None:
    with User(FORK_AND_LEAVE, made) as family:
        family.says("the parent closed it and is gone")
        assert family.hears() == "connected"
        assert not stopped(made)
        family.exit()
    wait_for(lambda: stopped(made))


def test_stop_ends_a_server_that_is_in_use(made: Path) -> None:
    with embedded.start(made) as server, psycopg.connect(server.dsn) as connection:
        assert embedded.stop(made)
        assert stopped(made)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


def test_where_nothing_runs_there_is_nothing_to_stop(made: Path) -> None:
    assert not embedded.stop(made)
    assert not embedded.stop(made / "nowhere")


def test_status_tells_what_there_is(directory: Path, made: Path) -> None:
    nowhere = embedded.status(directory / "nowhere")
    assert (nowhere.running, nowhere.version, nowhere.dsn) == (False, None, None)
    with embedded.start(made) as server:
        status = embedded.status(made)
        assert (status.running, status.pid, status.version) == (True, server.pid, server.version)
        assert (status.in_use, status.keep, status.dsn) == (True, False, server.dsn)
        assert set(status.users) <= {os.getpid()}
    status = embedded.status(made)
    assert (status.running, status.in_use, status.pid, status.version) == (False, False, None, server.version)


@linux
def test_the_watchdog_is_light_and_goes_with_the_server(made: Path) -> None:
    with embedded.start(made):
        (watchdog,) = watchdogs(made)
        facts = Path(f"/proc/{watchdog}/status").read_text()
        kilobytes = int(next(line for line in facts.splitlines() if line.startswith("VmRSS")).split()[1])
        assert kilobytes < 16_000
    wait_for(lambda: not watchdogs(made))


@linux
def test_the_last_user_stops_the_server_when_the_watchdog_was_killed(made: Path) -> None:
    with embedded.start(made):
        os.kill(watchdogs(made)[0], signal.SIGKILL)
    assert stopped(made)


@linux
def test_a_watchdog_asked_to_end_ends_the_server_first(made: Path) -> None:
    with embedded.start(made):
        os.kill(watchdogs(made)[0], signal.SIGTERM)
        wait_for(lambda: stopped(made))
        assert "received fast shutdown request" in (made / "server.log").read_text()
