"""Zombies on purpose: whatever a former holder could still say is said, under leases that are over.

    python -m gauntlet.load.zombie NAME '{"seed": 1}'

Which leases are over it learns from the witness: the job was claimed again under another one. From then on
nothing under the old lease may change anything, and every offer that is taken is a violation.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from gauntlet.history import NO, OK, UNKNOWN
from gauntlet.load.clients import Client
from gauntlet.load.told import TROUBLE

STALE = """
select old.id, old.job, old.lease
from (
  select job, id, lease, seq from public.witness
  where seq > (select max(seq) - 40000 from public.witness) and state = 'RUNNING' and kind <> 'extend'
  order by seq desc
) as old
where exists (
  select from public.witness newer
  where newer.id = old.id and newer.seq > old.seq and newer.state = 'RUNNING' and newer.lease <> old.lease)
limit 400
"""
SETTLE = "select ok from holdfast.settle_jobs(%s, %s, %s)"
EXTEND = "select verdict in ('extended', 'cancelling') from holdfast.extend_leases(%s, %s, 60)"
PROGRESS = (
    "select holdfast.report_progress(job, lease, 1) from unnest(%s::text[], %s::text[]) as old (job, lease)"
)
GIVE_BACK = """
select holdfast.release_resources(job, null, lease) > 0
from unnest(%s::text[], %s::text[]) as old (job, lease)
"""
VERBS = (
    "complete",
    "fail",
    "requeue",
    "reschedule",
    "release",
    "stop",
    "mark_unknown_stopped",
    "undelivered",
)


class Zombie(Client):
    """Says everything that a dead worker could say, at once."""

    pause_s = 0.4

    def turn(self) -> None:
        stale = self.conn.execute(STALE.encode()).fetchall()
        self.rng.shuffle(stale)
        for start in range(0, min(len(stale), 160), 20):
            # In the engine's own order: a verb for one job locks it until the whole statement ends.
            _, jobs, leases = (list(each) for each in zip(*sorted(stale[start : start + 20]), strict=True))
            verb = self.rng.choice((*VERBS, "extend", "progress", "give_back"))
            self._offer(verb, jobs, leases)
            if self.over.is_set():
                return

    def _offer(self, verb: str, jobs: list[str], leases: list[str]) -> None:
        number = self.journal.call("zombie", [[*pair, verb] for pair in zip(jobs, leases, strict=True)])
        said: Any = UNKNOWN
        try:
            match verb:
                case "extend":
                    rows = self.conn.execute(EXTEND, [jobs, leases]).fetchall()
                case "progress":
                    rows = self.conn.execute(PROGRESS, [jobs, leases]).fetchall()
                case "give_back":
                    rows = self.conn.execute(GIVE_BACK, [jobs, leases]).fetchall()
                case _:
                    rows = self.conn.execute(SETTLE, [jobs, [verb] * len(jobs), leases]).fetchall()
            said = [OK if taken else NO for (taken,) in rows]
        except TROUBLE:
            self.drop()
        finally:
            self.journal.reply(number, said)


if __name__ == "__main__":
    Zombie(sys.argv[1], **json.loads(sys.argv[2])).run()
