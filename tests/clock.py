"""The engine's clock in the hands of a test. Only databases made from the tests' template have it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg

# A table, because every session must see the same time. Plain SQL without SET, as the function it replaces.
TEST_CLOCK = """
create table holdfast._test_clock (at timestamptz not null);
grant select on holdfast._test_clock to public;
create or replace function holdfast._clock() returns timestamptz
language sql volatile
as $$ select coalesce((select at from holdfast._test_clock), clock_timestamp()) $$;
"""


class Clock:
    """Stop, set and move the time that the engine sees, for all sessions of the database."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn

    def now(self) -> datetime:
        """What the engine takes for now."""
        return self._moment("select holdfast._clock()")

    def freeze(self, at: datetime | None = None) -> datetime:
        """Stop the clock, here or at a given moment."""
        moment = at or self.now()
        self.thaw()
        self._conn.execute("insert into holdfast._test_clock (at) values (%s)", [moment])
        return moment

    def advance(self, seconds: float) -> datetime:
        """Move the clock, back if negative; a running clock is stopped first."""
        if self._conn.execute("select from holdfast._test_clock").rowcount == 0:
            self.freeze()
        return self._moment(
            "update holdfast._test_clock set at = at + make_interval(secs => %s) returning at", seconds
        )

    def thaw(self) -> None:
        """Let the clock show real time again."""
        self._conn.execute("delete from holdfast._test_clock")

    def _moment(self, query: str, *parameters: object) -> datetime:
        row = self._conn.execute(query.encode(), parameters or None).fetchone()
        assert row is not None
        moment = row[0]
        assert isinstance(moment, datetime)
        return moment
