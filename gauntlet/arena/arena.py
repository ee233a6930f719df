"""All of it together: server, ways, fleet and journals of one run."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import psycopg
from psycopg.sql import SQL, Identifier

from gauntlet.arena import witness
from gauntlet.arena.fleet import (
    RUN_VARIABLE,
    Fleet,
    free_port,
    load_command,
    survivors,
    web_command,
    worker_command,
)
from gauntlet.arena.links import Link, Namespaces, Pooler
from gauntlet.arena.server import Server
from gauntlet.journal import DIRECTORY_VARIABLE, Journal
from gauntlet.load.mix import RESOURCES
from holdfast.engine import installer

LEASE_S: Final = 2.0
QUEUES: Final = {"loop": 40, "thread": 4, "child": 2}
"""Enough on the loop for claims of twenty and more, whose jobs stay in line."""
LIMITS: Final = {"thread": 5}
"""Less than two workers could run."""
WORKER: Final = {
    "lease": LEASE_S,
    "shutdown_timeout": 2.0,
    "resource_busy_delay": 0.2,
    "poll_idle": 1.0,
    "kill_after": 1.0,
}
SESSIONS: Final = """
select count(*) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and application_name <> 'gauntlet'
"""


@dataclass(slots=True)
class Size:
    """How much of everything there is."""

    rate: float = 300.0
    workers: int = 3
    producers: int = 2
    busy: bool = False
    """More of what can go wrong in the mix of jobs."""
    with_ways: bool = True
    """Proxy, pooler and namespaces; else everybody goes straight to the server."""


@dataclass(slots=True)
class Arena:
    """One run's own world."""

    server: Server
    seed: int
    size: Size
    database: str = ""
    say: Callable[[str], None] = print
    run: str = field(default_factory=lambda: secrets.token_hex(6))
    directory: Path = field(init=False)
    fleet: Fleet = field(init=False)
    link: Link | None = None
    far_link: Link | None = None
    pooler: Pooler | None = None
    spaces: Namespaces | None = None
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        self.database = f"gauntlet_{self.run}"
        self.directory = Path(tempfile.mkdtemp(prefix="gauntlet-"))
        self.directory.chmod(0o755)
        self.journals.mkdir()
        self.fleet = Fleet(self.directory, self.environment, tells=self.say)
        self.journal = Journal(self.journals, "nemesis")

    @property
    def journals(self) -> Path:
        return self.directory / "journals"

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
            if name in os.environ
        }
        return {
            **kept,
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "PYTHONFAULTHANDLER": "0",
            RUN_VARIABLE: self.run,
            DIRECTORY_VARIABLE: str(self.journals),
        }

    @property
    def dsn(self) -> str:
        return self.server.database(self.database)

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return self.server.connect(self.database, **options)

    def prepare(self, plant: Callable[[psycopg.Connection[Any]], None] | None = None) -> None:
        """A database with Holdfast and the witness in it, and perhaps with a mistake."""
        with self.server.connect() as conn:
            conn.execute(SQL("create database {}").format(Identifier(self.database)))
        with self.connect() as conn:
            installer.install(conn)
            witness.call(conn)
            for key, capacity in RESOURCES.items():
                conn.execute("select holdfast.set_resource_capacity(%s, %s)", [key, capacity])
            for queue, limit in LIMITS.items():
                conn.execute("select holdfast.set_queue_limit(%s, %s)", [queue, limit])
            if plant is not None:
                plant(conn)

    def populate(self) -> None:
        """Open the ways and start everybody."""
        self._open_ways()
        ways = [self.dsn, *self._ways()]
        for number in range(self.size.workers):
            self.add_worker(f"worker{number}", ways[number % len(ways)])
        if self.spaces is not None and self.far_link is not None:
            self.add_worker(
                "far", self.far_link.dsn(self.database), prefix=self.spaces.inside(self.spaces.far)
            )
        for number in range(self.size.producers):
            way = self.link.dsn(self.database) if self.link is not None and number % 2 == 0 else self.dsn
            rate = self.size.rate / self.size.producers
            name = f"p{number}"
            command = load_command("producer", name, seed=self.seed, rate=rate, busy=self.size.busy)
            self.fleet.add(name, "producer", command, way)
        hands = self.link.dsn(self.database) if self.link is not None else self.dsn
        self.fleet.add("hands", "hand", load_command("hands", "hands", seed=self.seed, lease=LEASE_S), hands)
        port = free_port()
        self.fleet.add("web", "web", web_command(port), hands)
        remote = load_command(
            "remote", "remote", seed=self.seed, lease=LEASE_S, url=f"http://127.0.0.1:{port}"
        )
        self.fleet.add("remote", "hand", remote, hands)
        self.fleet.add("sql", "sql", load_command("sql_client", "sql", seed=self.seed, lease=LEASE_S), hands)
        self.fleet.add(
            "operator",
            "operator",
            load_command("operator", "operator", seed=self.seed, busy=self.size.busy),
            self.dsn,
        )
        self.fleet.add("zombie", "zombie", load_command("zombie", "zombie", seed=self.seed), self.dsn)
        self.fleet.tend()

    def add_worker(self, name: str, dsn: str, **options: Any) -> Any:
        return self.fleet.add(name, "worker", worker_command(QUEUES, **WORKER), dsn, **options)

    def _open_ways(self) -> None:
        if not self.size.with_ways:
            return
        self.link = Link("link", self.directory, self.server.socket, self.environment)
        if (why := Pooler.missing()) is None:
            self.pooler = Pooler(self.directory, self.server.socket, self.environment)
        else:
            self.skipped["pgbouncer"] = why
        if (why := Namespaces.missing()) is None:
            self.spaces = Namespaces()
            self.far_link = Link(
                "far-link",
                self.directory,
                self.server.socket,
                self.environment,
                host=self.spaces.host,
                prefix=self.spaces.inside(self.spaces.near),
            )
        else:
            self.skipped["namespaces"] = why

    def _ways(self) -> list[str]:
        ways: list[str] = []
        if self.link is not None:
            ways.append(self.link.dsn(self.database))
        if self.pooler is not None:
            ways.append(self.pooler.dsn(self.database))
        return ways

    def calm(self) -> None:
        """Undo whatever a fault may have left: a server that is up, ways that pass everything."""
        self.server.ensure_up()
        for link in (self.link, self.far_link):
            if link is not None:
                link.start()
                link.order(do="set", mode="pass")
                link.order(do="cut", word="", how="reply", times=0)
        if self.pooler is not None:
            self.pooler.start()
        if self.spaces is not None:
            self.spaces.mend()
        with self.connect() as conn:
            conn.execute(SQL("alter database {} reset all").format(Identifier(self.database)))

    def resume_all(self) -> None:
        with self.connect() as conn:
            conn.execute("select holdfast.resume_queue(name) from holdfast.queues")
            conn.execute("select holdfast.set_notify(true)")

    def sessions_left(self) -> int:
        """The server takes a moment to notice that a client is gone."""
        deadline = monotonic() + 15
        with self.connect() as conn:
            while True:
                row = conn.execute(SESSIONS.encode()).fetchone()
                if row is None or row[0] == 0 or monotonic() > deadline:
                    return int(row[0]) if row else 0
                sleep(0.1)

    def processes_left(self) -> list[str]:
        """Whatever of ours still runs, proxies and pooler excepted."""
        deadline = monotonic() + 10
        while True:
            ours = {each.process.pid for each in (self.link, self.far_link, self.pooler) if each is not None}
            left = [f"{pid} {words}" for pid, words in survivors(self.run) if pid not in ours]
            if not left or monotonic() > deadline:
                return left
            sleep(0.1)

    def close(self, *, keep: bool = False) -> None:
        self.fleet.close()
        for each in (self.link, self.far_link, self.pooler):
            if each is not None and each.process.poll() is None:
                each.kill()
        if self.spaces is not None:
            self.spaces.close()
        with suppress(psycopg.Error), self.server.connect() as conn:
            conn.execute(SQL("drop database if exists {} with (force)").format(Identifier(self.database)))
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)
