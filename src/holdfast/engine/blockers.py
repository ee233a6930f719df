"""Find out who keeps a lock that an installation waits for.

Only another session can see it: the waiting one waits, and when its lock_timeout strikes nothing blocks it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

import psycopg
from psycopg.rows import class_row

_BLOCKERS = """
select blocking.pid, activity.application_name, activity.state, activity.xact_start, activity.query_start
from unnest(pg_blocking_pids(%s)) as blocking (pid)
left join pg_stat_activity activity using (pid)
order by activity.xact_start, blocking.pid
"""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session in the way. What it runs is not asked for: query texts carry other people's data."""

    pid: int
    application_name: str | None
    state: str | None
    xact_start: datetime | None
    query_start: datetime | None

    def __str__(self) -> str:
        known = [
            f'application "{self.application_name}"' if self.application_name else None,
            self.state,
            f"in a transaction since {_moment(self.xact_start)}" if self.xact_start else None,
            f"last query at {_moment(self.query_start)}" if self.query_start else None,
        ]
        return f"pid {self.pid} ({', '.join(fact for fact in known if fact) or 'hidden from this role'})"


class Watch:
    """While entered, look from a second connection who blocks the first; `seen` are the last found."""

    def __init__(self, conn: psycopg.Connection[Any], interval_s: float) -> None:
        self.seen: tuple[Blocker, ...] = ()
        self.pid = 0
        self._dsn = conn.info.dsn
        self._password = conn.info.password or None
        self._interval_s = interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="holdfast-install-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        # An installation that waits for nobody is over before the first look, and costs no second connection.
        if self._done.wait(self._interval_s):
            return
        try:
            with psycopg.connect(
                self._dsn, password=self._password, autocommit=True, application_name="holdfast migrate watch"
            ) as conn:
                while not self._done.wait(self._interval_s):
                    found = (
                        conn.cursor(row_factory=class_row(Blocker)).execute(_BLOCKERS, [self.pid]).fetchall()
                    )
                    self.seen = tuple(found) or self.seen
        except psycopg.Error:
            return  # the message will then name nobody


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
