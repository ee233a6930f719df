"""What both kinds of store have in common: how they are set up, and what becomes of an error."""

from __future__ import annotations

import logging
from abc import abstractmethod
from math import inf
from time import monotonic
from typing import Any, Final, Generic, TypeVar

import psycopg
from psycopg.abc import PQGen

from holdfast import config
from holdfast.errors import InvalidArgument
from holdfast.store import address, arguments
from holdfast.store.adapters import ADAPTERS
from holdfast.store.call import OWN_TRANSACTION, Call, Statement, Unread
from holdfast.store.connections import DeadlineAsyncConnection, DeadlineConnection, with_task
from holdfast.store.loop_end import POOL_NAME
from holdfast.store.pacing import Pacing
from holdfast.store.sqlstates import Action, action_for
from holdfast.store.statements import Statements
from holdfast.store.trial import Trial

R = TypeVar("R")
PoolT = TypeVar("PoolT")

logger: Final = logging.getLogger("holdfast.store")

CLOSE_S: Final = 1.0
"""How long closing waits for each helper of a pool: there are four, and closing ends within five seconds."""

SLICE_S: Final = 0.5
"""How long to wait for a connection before asking again: a pool stops connecting when an attempt failed."""


KEPT_S: Final = 3000.0
"""How old a connection may be that is kept from the pool, which replaces those of an hour."""


class Sql:
    """The statements as they read in one schema, each written once."""

    def __init__(self, schema: str, *, own_transaction: bool = False) -> None:
        self.schema = config.schema_name(schema)
        self._own_transaction = "true" if own_transaction else "false"
        self._written: dict[str, bytes] = {}

    def of(self, statement: Statement) -> bytes:
        written = None if statement.composed else self._written.get(statement.sql)
        if written is None:
            written = (
                statement.sql.replace("{schema}", f'"{self.schema}"')
                .replace(OWN_TRANSACTION, self._own_transaction)
                .encode()
            )
            if not statement.composed:
                self._written[statement.sql] = written
        return written


class PooledStore(Generic[PoolT]):
    """A store that is set up and not opened yet."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = config.DEFAULT_SCHEMA,
        min_size: int = 0,
        max_size: int = 10,
        timeout_s: float = config.CALL_TIMEOUT_S,
        prepare: bool = True,
        serial: bool = False,
    ) -> None:
        self._address = address.understand(dsn)
        self._sql = Sql(schema, own_transaction=True)
        self._timeout_s = arguments.seconds(timeout_s, "timeout_s", positive=True)
        self._prepares = arguments.flag(prepare, "prepare") == "t"
        self._pacing = Pacing()
        self._closed = False
        self._trusted_since = -inf
        self._serial = serial
        """Whether one caller makes one call after the other: then a connection stays here between them."""
        self._pool = self._new_pool(
            conninfo=self._address.dsn,
            kwargs=self._connection_options(),
            min_size=arguments.whole_number(min_size, "min_size", least=0),
            max_size=arguments.whole_number(max_size, "max_size", least=max(1, min_size)),
            name=POOL_NAME,
            open=False,
            # Attempts are paced by us and asked for by whoever waits; the pool's own become ever rarer.
            reconnect_timeout=0.0,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.place}, schema={self._sql.schema})"

    @abstractmethod
    def _new_pool(self, **options: Any) -> PoolT: ...

    def _connection_options(self) -> dict[str, Any]:
        return {
            **self._address.options,
            "autocommit": True,
            "context": ADAPTERS,
            "prepare_threshold": None,
            "pacing": self._pacing,
        }

    def _begin(self, call: Call[R]) -> Trial[R]:
        timeout_s = self._timeout_s
        if call.timeout_s is not None:
            timeout_s = arguments.seconds(call.timeout_s, "timeout_s", positive=True)
        return Trial(call, monotonic(), timeout_s, place=self._address.place, schema=self._sql.schema)

    def _asking(self, statements: Statements, call: Call[Any]) -> PQGen[Unread]:
        """What a connection has to do for a call."""
        prepares = self._prepares and not call.statement.composed
        steps = statements.ask(self._sql.of(call.statement), call.parameters, prepares=prepares)
        return steps if call.meanwhile is None else with_task(steps, call.meanwhile)

    def _pause_s(self, trial: Trial[Any], error: psycopg.Error) -> float:
        """How long to wait before the call is tried again; raise if it is not."""
        if action_for(error) is Action.UNPREPARE and self._prepares:
            self._prepares = False
            logger.warning(
                "prepared statements get lost on the way to %s (%s), as behind an old pgbouncer: "
                "going on without them; from pgbouncer 1.21 on, max_prepared_statements keeps them",
                self._address.place,
                error.sqlstate,
            )
        return trial.after(error, monotonic())

    def _distrust_idle_connections(
        self, conn: DeadlineConnection | DeadlineAsyncConnection, error: psycopg.Error
    ) -> None:
        """Use none of them again if what befell this one has befallen them: nobody there, or a standby."""
        if conn.silent or action_for(error) is Action.FAIL_OVER:
            self._trusted_since = monotonic()

    def _may_keep(self, conn: DeadlineConnection | DeadlineAsyncConnection) -> bool:
        """To put a connection back into the pool and take it out again costs a call 40 steps of Python."""
        return self._serial and not self._closed and monotonic() - conn.made_at < KEPT_S

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise InvalidArgument(f"{self!r} is closed")
