"""The app: which database, when it is opened, and by whom it may be used."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.store import SyncStore
from tests.client.shop import Shop

SESSIONS = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


def pids(conn: psycopg.Connection[Any]) -> set[int]:
    """The sessions of everybody else in this database."""
    return {pid for (pid,) in conn.execute(SESSIONS)}


def sessions(conn: psycopg.Connection[Any]) -> int:
    return len(pids(conn))


def all_closed(conn: psycopg.Connection[Any]) -> bool:
    """Whether no session is left; the server notices the end of one a moment later."""
    deadline = monotonic() + 20
    while sessions(conn):
        if monotonic() > deadline:
            return False
    return True


def test_nothing_is_looked_at_before_the_first_use(monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")
    hf = Holdfast()
    shop = Shop(hf)
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database)
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")
    assert shop.mail.enqueue("a").job_id
    hf.close()


def test_the_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")
    with Holdfast(database) as hf:
        assert Shop(hf).mail.enqueue("a").job_id


def test_the_weaker_variable_is_used_too(monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    with Holdfast() as hf:
        assert Shop(hf).mail.enqueue("a").job_id


@pytest.mark.parametrize("options", [{"dsn": ""}, {"dsn": 3}, {"schema": "Public!"}, {"schema": ""}])
def test_what_no_app_can_have_is_refused_at_once(options: Any) -> None:
    with pytest.raises(InvalidArgument):
        Holdfast(**options)


def test_without_a_database_two_processes_of_a_project_find_the_same_embedded_one(
    open_directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "shop.py").write_text(
        textwrap.dedent("""
            import sys
            from holdfast import Holdfast
            hf = Holdfast()

            @hf.task
            def add(a: int, b: int) -> int:
                return a + b

            if __name__ == "__main__":
                print(add.using(job_id="kept").enqueue(1, 2).info().task)
        """)
    )
    environment = {
        **{name: value for name, value in os.environ.items() if not name.endswith("DATABASE_URL")},
        "HOLDFAST_HOME": str(open_directory),
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", "nothing is left to complain about at the end"
        return done.stdout.strip()

    assert run("shop.py") == "shop.add"
    assert run("-c", "import shop; print(shop.hf.jobs.get('kept').job.payload)") == str(
        {"args": [1, 2], "kwargs": {}}
    )


def test_connections_are_opened_once_and_closed(database: str, conn: psycopg.Connection[Any]) -> None:
    hf = Holdfast(database)
    shop = Shop(hf)
    assert sessions(conn) == 0
    for _ in range(5):
        shop.mail.enqueue("a")
    assert hf.stores.blocking() is hf.stores.blocking()
    assert sessions(conn) == 1
    hf.close()
    hf.close()
    assert all_closed(conn)
    assert shop.mail.enqueue("a").job_id, "a closed app opens itself again"
    hf.close()


def test_threads_that_come_at_once_open_one_store(database: str) -> None:
    with Holdfast(database) as hf:
        together = threading.Barrier(8)
        found: list[SyncStore] = []

        def open_store() -> None:
            together.wait()
            found.append(hf.stores.blocking())

        threads = [threading.Thread(target=open_store) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(map(id, found))) == 1


def test_every_loop_has_its_own_store_and_closes_it(database: str, conn: psycopg.Connection[Any]) -> None:
    hf = Holdfast(database)
    shop = Shop(hf)

    async def use() -> int:
        await asyncio.gather(*(shop.mail.aenqueue("a") for _ in range(3)))
        assert await hf.stores.asynchronous() is await hf.stores.asynchronous()
        return sessions(conn)

    for _ in range(3):
        assert asyncio.run(use()) >= 1
        assert all_closed(conn), "with the loop"
    gc.collect()
    hf.close()


@pytest.mark.anyio
async def test_aclose_closes_what_is_open_and_the_app_goes_on(
    shop: Shop, conn: psycopg.Connection[Any]
) -> None:
    await shop.mail.aenqueue("a")
    await asyncio.to_thread(shop.mail.enqueue, "b")
    await shop.hf.aclose()
    await shop.hf.aclose()
    assert all_closed(conn)
    await shop.mail.aenqueue("c")
    with pytest.raises(HoldfastError, match="aclose"):
        shop.hf.close()
    await shop.hf.aclose()


def test_close_closes_on_a_loop_of_another_thread(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    used, done = threading.Event(), threading.Event()

    async def use() -> None:
        await shop.mail.aenqueue("a")
        used.set()
        await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(use(),))
    thread.start()
    used.wait()
    shop.hf.close()
    assert all_closed(conn)
    done.set()
    thread.join()


def in_child(shop: Shop, answers: Any) -> None:
    mine = shop.mail.enqueue("child").job_id

    async def too() -> str:
        return (await shop.mail.aenqueue("child")).job_id

    answers.put([mine, asyncio.run(too())])
    shop.hf.close()


def test_a_forked_child_has_connections_of_its_own(
    shop: Shop, store: SyncStore, conn: psycopg.Connection[Any]
) -> None:
    before = shop.mail.enqueue("parent").job_id
    of_parent = pids(conn)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=in_child, args=(shop, answers), daemon=True)
    child.start()
    by_child = answers.get(timeout=60)
    child.join()
    assert child.exitcode == 0
    assert of_parent
    assert of_parent <= pids(conn), "the child closed its own connections, not the parent's"
    after = [shop.mail.enqueue("parent").job_id for _ in range(5)]
    assert len({before, *by_child, *after}) == 8
    assert all(store.get_job(job_id) is not None for job_id in (before, *by_child, *after))


def test_a_child_forked_while_the_app_opens_is_not_stuck(database: str) -> None:
    with Holdfast(database) as hf:
        shop = Shop(hf)
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        with hf.stores._opening:  # as a thread holds it that is just reaching the database
            child = context.Process(target=in_child, args=(shop, answers), daemon=True)
            child.start()
            assert len(answers.get(timeout=60)) == 2
            child.join()
        assert child.exitcode == 0


def test_an_app_left_open_ends_quietly(database: str, tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        from holdfast import Holdfast
        hf = Holdfast(sys.argv[1])

        @hf.task
        def add(a: int) -> int:
            return a

        async def main() -> None:
            await add.aenqueue(1)

        add.enqueue(1)
        asyncio.run(main())
    """)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, database], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("queues", "message"),
    [("mail", r'\{"mail": 10\}'), ({}, "at least one"), ({"mail": 0}, '"mail"'), ({"": 1}, "queues")],
)
def test_a_worker_of_no_queues_is_refused(hf: Holdfast, queues: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        hf.worker(queues)


def test_an_app_says_what_it_is(shop: Shop) -> None:
    assert repr(shop.hf) == "<Holdfast of schema holdfast, 3 tasks>"


def test_metrics_begin_with_nothing(hf: Holdfast) -> None:
    assert hf.metrics.snapshot() == {}
    hf.metrics.count("jobs.rescheduled.resource_busy")
    assert hf.metrics.snapshot() == {"jobs.rescheduled.resource_busy": 1.0}


def test_another_schema_is_another_app(blank_database: str, connect: Callable[..., Any]) -> None:
    from holdfast.engine import installer

    installer.install(connect(blank_database), "other")
    with Holdfast(blank_database, schema="other") as hf:
        shop = Shop(hf)
        assert shop.mail.enqueue("a").info().queue == "mail"
        with connect(blank_database, autocommit=False) as conn, hf.transaction(conn):
            shop.mail.using(job_id="mine").enqueue("a")
        assert hf.jobs.get("mine").job.queue == "mail"
