"""People: they cancel, pause, revive, delete and take jobs away while everything goes on.

python -m gauntlet.load.operator NAME '{"seed": 1}'
"""

from __future__ import annotations

import json
import sys
from typing import Any

from gauntlet.history import NO, OK
from gauntlet.load.clients import Client
from gauntlet.load.told import TROUBLE, said_by

SOME = """
select name from holdfast.jobs
where name is not null and id >= (select min(id) + (max(id) - min(id)) * %s from holdfast.jobs)
order by id limit %s
"""
DEAD = "select name from holdfast.jobs where state = 'DEAD' and name is not null order by random() limit %s"
HELD = (
    "select name from holdfast.jobs where state = 'RUNNING' and name is not null order by random() limit %s"
)
WORKERS = "select assignee_id from holdfast.jobs where state = 'RUNNING' order by random() limit 1"
SET_ASIDE = """
select name from holdfast.jobs
where consecutive_expirations >= holdfast.crash_concern_threshold() and name is not null limit 20
"""
QUEUES = ("loop", "thread", "hand")


class Operator(Client):
    """One deed a turn."""

    pause_s = 0.15

    def __init__(self, name: str, seed: int, *, busy: bool = False) -> None:
        super().__init__(name, seed)
        self._busy = busy
        # Whoever was here before may have been killed with a queue paused.
        self._to_resume = list(QUEUES)
        if busy:
            self.pause_s = 0.05

    def turn(self) -> None:
        self._resume()
        deeds = {
            self._cancel: 25,
            self._cancel_running: 15,
            self._revive: 15,
            self._release: 12,
            self._delete: 4,
            self._pause: 20 if self._busy else 4,
            self._take_all: 1,
            self._clear: 8,
        }
        self.rng.choices(list(deeds), list(deeds.values()))[0]()

    def _cancel(self) -> None:
        self._cancel_all(self._names(SOME, self.rng.random(), self.rng.choice((1, 1, 3))))

    def _cancel_running(self) -> None:
        self._cancel_all(self._names(HELD, self.rng.choice((1, 1, 3))))

    def _cancel_all(self, jobs: list[str]) -> None:
        if not jobs:
            return
        number = self.journal.call("cancel", jobs)
        said: Any = self._asked(
            number, "select job_id, cancelled from holdfast.cancel_jobs(null, %s, %s)", jobs, self.name
        )
        if said is not None:
            taken = dict(said)
            self.journal.reply(number, [OK if taken.get(job) else NO for job in jobs])

    def _revive(self) -> None:
        for job in self._names(DEAD, 3):
            self._one("revive", "select holdfast.revive_job(%s)", job)

    def _release(self) -> None:
        """Take a job away from a worker that is quite well: a zombie in the making."""
        for job in self._names(HELD, 2):
            self._one("release", "select holdfast.release_job(%s)", job)

    def _delete(self) -> None:
        for job in self._names(DEAD, 1):
            self._one("delete", "select holdfast.delete_jobs(null, array[%s])", job)

    def _clear(self) -> None:
        for job in self._names(SET_ASIDE):
            self._one("clear", "select holdfast.clear_crash_concern(%s, 'operator')", job)

    def _pause(self) -> None:
        queue = self.rng.choice(QUEUES)
        self._to_resume.append(queue)
        try:
            self._one("pause", "select holdfast.pause_queue(%s)", queue)
            self.over.wait(self.rng.uniform(0.1, 1.2))
        finally:
            self._resume()

    def _resume(self) -> None:
        """What is not answered is said again in the next turn: a paused queue looks like a fault."""
        while self._to_resume:
            self._one("resume", "select holdfast.resume_queue(%s)", self._to_resume[0])
            del self._to_resume[0]

    def _take_all(self) -> None:
        for worker in self._names(WORKERS):
            self._one("mark_unresponsive", "select holdfast.mark_worker_unresponsive(%s)", worker)

    def _names(self, query: str, *parameters: Any) -> list[str]:
        return [name for (name,) in self.conn.execute(query.encode(), parameters or None).fetchall()]

    def _one(self, op: str, query: str, job: str) -> None:
        number = self.journal.call(op, [job])
        if self._asked(number, query, job) is not None:
            self.journal.reply(number, OK)

    def _asked(self, number: int, query: str, *parameters: Any) -> list[Any] | None:
        try:
            return self.conn.execute(query.encode(), parameters).fetchall()
        except TROUBLE as error:
            said = said_by(error)
            self.journal.reply(number, said)
            if said != NO:
                raise
            return None


if __name__ == "__main__":
    Operator(sys.argv[1], **json.loads(sys.argv[2])).run()
