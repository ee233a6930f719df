"""A client that knows only SQL: claims, and completes in one transaction with an effect of its own.

python -m gauntlet.load.sql_client NAME '{"seed": 1, "lease": 2}'
"""

from __future__ import annotations

import json
import os
import sys

import psycopg

from gauntlet.history import NO, OK, UNKNOWN
from gauntlet.load.clients import Client
from gauntlet.load.told import TROUBLE, said_by

CLAIM = "select job_id, lease_id from holdfast.claim_jobs(%s, array['sql'], 4, %s)"
EFFECT = "insert into public.ledger (job, lease) values (%s, %s)"
COMPLETE = "select holdfast.complete_job(%s, %s, %s)"
BACK = "select * from holdfast.reschedule_job(%s, %s, %s, 'sql')"


class SqlClient(Client):
    """The effect is there if and only if the job has completed."""

    def __init__(self, name: str, seed: int, lease: float) -> None:
        super().__init__(name, seed)
        self._lease = lease
        self._who = f"{name}-{os.getpid()}"

    def turn(self) -> None:
        for job, lease in self.conn.execute(CLAIM, [self._who, self._lease]).fetchall():
            if self.rng.random() < 0.04:
                continue  # forgotten: its lease will lapse
            self._work(job, lease)

    def _work(self, job: str, lease: str) -> None:
        back = self.rng.random() < 0.1
        number = self.journal.call("complete_with_effect", [job], lease=lease)
        said = UNKNOWN
        try:
            with self.conn.transaction():
                self.conn.execute(EFFECT, [job, lease])
                self.conn.execute(COMPLETE, [job, lease, self._who])
                if back:
                    raise psycopg.Rollback
            said = NO if back else OK
        except TROUBLE as error:
            said = said_by(error)
            raise
        finally:
            self.journal.reply(number, said)
        if back:
            self.conn.execute(BACK, [job, lease, self._who])


if __name__ == "__main__":
    SqlClient(sys.argv[1], **json.loads(sys.argv[2])).run()
