"""Asking for work: one job or many, on connections of our own or in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from holdfast.client.borrowing import Borrowed, borrow
from holdfast.client.handle import JobHandle
from holdfast.client.stores import Stores
from holdfast.client.transactions import Transaction, current
from holdfast.errors import InvalidArgument, PayloadError
from holdfast.store import Call
from holdfast.store.calls.expiring import submit_expiring_jobs
from holdfast.store.calls.together import submit_one
from holdfast.store.steps import Steps, run_awaiting, run_blocking
from holdfast.tasks import JobSpec, Registry

R = TypeVar("R")


class Client:
    """Sends jobs and hears of them. Any thread and any event loop may use it."""

    def __init__(self, stores: Stores, registry: Registry, schema: str) -> None:
        self.stores = stores
        self.registry = registry
        self.schema = schema

    def send(self, spec: JobSpec[R]) -> JobHandle[R]:
        """Put one job in line; threads that do so at the same time may share a call and a commit."""
        (handle,) = self._send([spec], _single_submission(spec))
        return handle

    async def asend(self, spec: JobSpec[R]) -> JobHandle[R]:
        """Put one job in line; tasks that do so at the same time may share a call and a commit."""
        (handle,) = await self._asend([spec], _single_submission(spec))
        return handle

    def send_many(self, specs: Iterable[JobSpec[R]], conn: object = None) -> list[JobHandle[R]]:
        """Put jobs in line, all or none, in one statement; handles in the order given."""
        listed = _listed(specs)
        return self._send(listed, _submission(listed), conn) if listed else []

    async def asend_many(self, specs: Iterable[JobSpec[R]], conn: object = None) -> list[JobHandle[R]]:
        """As `send_many`, for asyncio."""
        listed = _listed(specs)
        return await self._asend(listed, _submission(listed), conn) if listed else []

    def transaction(self, conn: object) -> Transaction:
        """Enqueue on this connection within the block; None: on none, whatever is around the block."""
        return Transaction(self, None if conn is None else borrow(conn, self.schema))

    def run(self, steps: Steps[R]) -> R:
        """Go through the steps, blocking."""
        return run_blocking(self.stores.blocking(), steps)

    async def arun(self, steps: Steps[R]) -> R:
        """Go through the steps, for asyncio."""
        return await run_awaiting(await self.stores.asynchronous(), steps)

    def _send(
        self, specs: list[JobSpec[R]], call: Call[list[str]], conn: object = None
    ) -> list[JobHandle[R]]:
        borrowed = self._borrowed(specs, conn)
        ids = self.stores.blocking().run(call) if borrowed is None else borrowed.for_blocking().run(call)
        return self._handles(specs, ids)

    async def _asend(
        self, specs: list[JobSpec[R]], call: Call[list[str]], conn: object = None
    ) -> list[JobHandle[R]]:
        borrowed = self._borrowed(specs, conn)
        if borrowed is None:
            ids = await (await self.stores.asynchronous()).run(call)
        else:
            ids = await borrowed.for_awaiting().run(call)
        return self._handles(specs, ids)

    def _borrowed(self, specs: list[JobSpec[Any]], conn: object) -> Borrowed | None:
        """The connection named with the call, else with the jobs, else by the block around; None: our own."""
        if conn is None:
            named = {id(spec.conn): spec.conn for spec in specs}
            if len(named) > 1:
                raise InvalidArgument("jobs of one call are enqueued together: they cannot name several conn")
            (conn,) = named.values()
        return current(self) if conn is None else borrow(conn, self.schema)

    def _handles(self, specs: list[JobSpec[R]], ids: list[str]) -> list[JobHandle[R]]:
        return [JobHandle(job_id, self, spec.task) for spec, job_id in zip(specs, ids, strict=True)]


def _listed(specs: Iterable[JobSpec[R]]) -> list[JobSpec[R]]:
    if isinstance(specs, JobSpec) or not isinstance(specs, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"enqueue_many takes a list of task.job(...), not {specs!r}")
    listed = list(specs)
    for place, spec in enumerate(listed):
        if not isinstance(spec, JobSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(
                f"enqueue_many: item {place} is {spec!r}, not a job to be sent; write task.job(...)"
            )
    return listed


def _single_submission(spec: JobSpec[Any]) -> Call[list[str]]:
    if spec.expires_in_s is not None:
        return _submission([spec])
    try:
        return submit_one(spec.new_job)
    except PayloadError:
        _name_arguments([spec])
        raise


def _submission(specs: list[JobSpec[Any]]) -> Call[list[str]]:
    try:
        return submit_expiring_jobs([spec.new_job for spec in specs], [spec.expires_in_s for spec in specs])
    except PayloadError:
        _name_arguments(specs)
        raise


def _name_arguments(specs: list[JobSpec[Any]]) -> None:
    """Raise PayloadError naming the argument that cannot be stored, if one is to blame."""
    for spec in specs:
        spec.task.shape.refuse_flaws(cast("dict[str, Any]", spec.new_job.payload))
