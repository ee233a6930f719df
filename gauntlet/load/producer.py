"""A producer: enqueues jobs under ids of its own, and asks again under the same ids when it was not answered.

python -m gauntlet.load.producer NAME '{"seed": 1, "rate": 200, "busy": false}'
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from random import Random
from time import monotonic
from typing import Any

import psycopg

from gauntlet.history import NO, OK, UNKNOWN
from gauntlet.journal import journal
from gauntlet.load import app
from gauntlet.load.mix import BUSY_KINDS, KINDS, Mix
from gauntlet.load.told import TROUBLE, said_by
from holdfast.errors import JobExists

SIZES = (1, 1, 1, 1, 5, 20, 60)
ENOUGH = 15_000
"""Jobs that have not ended, above which producers wait: the load is to be steady, not endless."""
BURST_S = 5.0
SLOWER = 5.0
"""In short runs a kill or a cancellation has to find somebody at work."""

Chosen = tuple[str, tuple[Any, ...], dict[str, Any]]


class Producer:
    """Enqueues at a rate until told to stop."""

    def __init__(self, name: str, seed: int, rate: float, busy: bool) -> None:
        self._prefix = f"{name}-{os.getpid()}"
        self._rng = Random(f"{seed} {self._prefix}")
        self._rate = rate
        self._mix = Mix(self._rng, dict(BUSY_KINDS if busy else KINDS), pace=SLOWER if busy else 1.0)
        self._journal = journal(name)
        self._over = threading.Event()
        self._number = 0
        self._conn: psycopg.Connection[Any] | None = None

    def stop(self, *_: object) -> None:
        self._over.set()

    def run(self) -> None:
        began, owed = monotonic(), 0.0
        while not self._over.is_set():
            size = self._rng.choice(SIZES)
            jobs = {self._name(): self._mix.choose() for _ in range(size)}
            if size == 1 and self._rng.random() < 0.15:
                self._in_transaction(jobs)
            else:
                self._enqueue(jobs)
            owed += size / self._rate
            # Whoever was kept waiting by a fault catches up, but not for ever.
            began = max(began, monotonic() - owed - BURST_S)
            self._over.wait(max(0.0, began + owed - monotonic()))
            if self._rng.random() < 0.02:
                self._wait_for_room()

    def _name(self) -> str:
        self._number += 1
        return f"{self._prefix}-{self._number}"

    def _enqueue(self, jobs: dict[str, Chosen]) -> None:
        for _ in range(8):
            number = self._journal.call("submit", _items(jobs))
            try:
                if len(jobs) == 1 and self._rng.random() < 0.5:
                    ((job_id, (task, args, options)),) = jobs.items()
                    getattr(app, task).using(job_id=job_id, **options).enqueue(*args)
                else:
                    app.hf.enqueue_many(
                        getattr(app, task).using(job_id=job_id, **options).job(*args)
                        for job_id, (task, args, options) in jobs.items()
                    )
                said = OK
            except JobExists:
                said = OK  # all or none: the first call, whose answer was lost, was taken
            except TROUBLE as error:
                said = said_by(error)
            self._journal.reply(number, said)
            if said != UNKNOWN:
                self._mix.recent.extend(jobs if said == OK else ())
                return
            self._over.wait(0.2)

    def _in_transaction(self, jobs: dict[str, Chosen]) -> None:
        """Enqueue together with something else, and perhaps take both back."""
        ((job_id, (task, args, options)),) = jobs.items()
        back = self._rng.random() < 0.3
        number = self._journal.call("submit", _items(jobs), order=True)
        said = UNKNOWN
        try:
            if self._conn is None or self._conn.closed:
                self._conn = psycopg.connect(os.environ["HOLDFAST_DATABASE_URL"], connect_timeout=5)
            with app.hf.transaction(self._conn):
                self._conn.execute("insert into public.orders (job) values (%s)", [job_id])
                getattr(app, task).using(job_id=job_id, **options).enqueue(*args)
            if back:
                self._conn.rollback()
                said = NO
            else:
                self._conn.commit()
                said = OK
        except TROUBLE as error:
            # Before the commit was sent nothing can have happened; afterwards nobody can say.
            said = said_by(error)
            self._drop()
        self._journal.reply(number, said)
        if said == OK:
            self._mix.recent.append(job_id)

    def _drop(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _wait_for_room(self) -> None:
        while not self._over.is_set():
            try:
                with psycopg.connect(os.environ["HOLDFAST_DATABASE_URL"], connect_timeout=5) as conn:
                    row = conn.execute("select count(*) from holdfast.jobs where state <> 'DEAD'").fetchone()
                    if row is not None and row[0] < ENOUGH:
                        return
            except TROUBLE:
                pass
            self._over.wait(0.5)


def _items(jobs: dict[str, Chosen]) -> list[Any]:
    """What the checker is to know of each."""
    return [
        [
            job_id,
            {
                key: options[key]
                for key in ("wait_for", "if_parent_fails", "queue", "resources")
                if key in options
            },
        ]
        for job_id, (_, _, options) in jobs.items()
    ]


def main() -> None:
    producer = Producer(sys.argv[1], **json.loads(sys.argv[2]))
    signal.signal(signal.SIGTERM, producer.stop)
    print("ready", flush=True)
    producer.run()
    app.hf.close()


if __name__ == "__main__":
    main()
