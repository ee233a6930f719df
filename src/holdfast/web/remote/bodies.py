"""What a client of a stream may say, and what its words mean. Everything has a limit."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from holdfast.domain.content import storable_text
from holdfast.domain.job import Content
from holdfast.domain.measures import LONGEST_S
from holdfast.domain.outcome import (
    Acknowledged,
    Completed,
    Failed,
    Outcome,
    Released,
    Requeued,
    Rescheduled,
    Stopped,
    StoppedWithRetry,
    UnknownStopped,
)
from holdfast.queue.terms import Terms, stream_terms
from holdfast.store import Settlement
from holdfast.web.asking import Body, Moment, Name, QueueName, Whole
from holdfast.web.problems import Problem
from holdfast.web.remote.session import Hold

MOST_CAPACITY: Final = 1000
MOST_AT_ONCE: Final = 1000
MOST_NAMES: Final = 100
SHORTEST_LEASE_S: Final = 1.0
LONGEST_LEASE_S: Final = 3600.0

Lease: TypeAlias = Annotated[float, Field(ge=SHORTEST_LEASE_S, le=LONGEST_LEASE_S, allow_inf_nan=False)]
Delay: TypeAlias = Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)]


def _storable(text: object) -> object:
    return storable_text(text) if isinstance(text, str) else text


Words: TypeAlias = Annotated[str, BeforeValidator(_storable)]
"""The text of an error. Half an emoji at its end is no reason to refuse the outcome of a job."""


class HeldJob(Body):
    """A job and the lease it was delivered under."""

    job_id: Name
    lease_id: Name


class OpenBody(Body):
    """What a stream is to bring, and to whom."""

    assignee: Name = Field(description="The name of the worker, as people will see it.")
    queues: list[QueueName] = Field(["default"], min_length=1, max_length=MOST_NAMES)
    tags: list[Name] = Field([], max_length=MOST_NAMES, description="A job must have all of them.")
    capacity: Whole = Field(1, ge=1, le=MOST_CAPACITY, description="The most jobs to be held at a time.")
    lease: Lease = Field(30.0, description="Seconds from the last sign of life until jobs are taken away.")
    ack: bool = Field(False, description="Whether jobs have arrived only when they are acknowledged.")
    holding: list[HeldJob] = Field(
        [], max_length=MOST_CAPACITY, description="What the worker still has from an earlier stream."
    )
    replaces: Name | None = Field(None, description="That earlier stream, should it still be open here.")

    def terms(self) -> Terms:
        return stream_terms(self.assignee, self.tags, self.capacity, self.queues, self.lease)

    def holds(self) -> list[Hold]:
        """Each job once; of one that is named again, the last lease."""
        return list({job.job_id: job.lease_id for job in self.holding}.items())


class HeldBody(Body):
    """Jobs that have arrived."""

    jobs: list[HeldJob] = Field(max_length=MOST_AT_ONCE)

    def holds(self) -> list[Hold]:
        return [(job.job_id, job.lease_id) for job in self.jobs]


class ExtendBody(HeldBody):
    """Jobs to be kept, and for how long from now."""

    lease: Lease = 30.0


OutcomeName: TypeAlias = Literal[
    "complete",
    "fail",
    "permanent",
    "requeue",
    "snooze",
    "reschedule",
    "release",
    "stop",
    "stop_with_retry",
    "mark_unknown_stopped",
    "acknowledge_cancellation",
]


class Result(HeldJob):
    """What became of one job."""

    outcome: OutcomeName
    result: Any = Field(None, description="Of complete.")
    result_bytes: str | None = Field(None, description="Of complete, instead of result: bytes as base64.")
    error: Words = Field("", description="What went wrong; fail and permanent need it.")
    traceback: Words | None = None
    delay: Delay = Field(0.0, description="Seconds until it is due again.")
    available_at: Moment | None = Field(
        None, description="Instead of delay, for requeue, snooze and reschedule."
    )
    was_executing: bool = Field(True, description="Of acknowledge_cancellation.")


class SettleBody(Body):
    """What became of jobs; each is settled as far as it can be."""

    results: list[Result] = Field(max_length=MOST_AT_ONCE)

    def settlements(self) -> list[Settlement]:
        return [_settlement(result, f"results[{place}]") for place, result in enumerate(self.results)]


def _settlement(said: Result, where: str) -> Settlement:
    if said.outcome in _NEEDS_ERROR and not said.error:
        raise _invalid(where, f"error is missing: {said.outcome} says what went wrong")
    if said.available_at is not None and (said.delay or said.outcome not in _TAKES_MOMENT):
        raise _invalid(where, "available_at stands alone, with requeue, snooze or reschedule")
    if said.result_bytes is not None and said.result is not None:
        raise _invalid(where, "result and result_bytes exclude each other")
    if said.outcome == "complete":
        return said.job_id, said.lease_id, Completed(_result(said, where))
    return said.job_id, said.lease_id, _OUTCOMES[said.outcome](said)


_NEEDS_ERROR: Final = frozenset({"fail", "permanent"})
_TAKES_MOMENT: Final = frozenset({"requeue", "snooze", "reschedule"})

_OUTCOMES: Final[dict[str, Callable[[Result], Outcome]]] = {
    "fail": lambda said: Failed(said.error, said.traceback, said.delay),
    "permanent": lambda said: Failed(said.error, said.traceback, permanent=True),
    "requeue": lambda said: Requeued(said.delay, said.error, said.available_at),
    "snooze": lambda said: Rescheduled(said.delay, "snooze", available_at=said.available_at),
    "reschedule": lambda said: Rescheduled(said.delay, "reschedule", available_at=said.available_at),
    "release": lambda _: Released(),
    "stop": lambda said: Stopped(said.error),
    "stop_with_retry": lambda said: StoppedWithRetry(said.error, said.traceback),
    "mark_unknown_stopped": lambda said: UnknownStopped(said.error),
    "acknowledge_cancellation": lambda said: Acknowledged(said.was_executing),
}


def _result(said: Result, where: str) -> Content:
    if said.result_bytes is None:
        result: Content = said.result
        return result
    try:
        return base64.b64decode(said.result_bytes, validate=True)
    except ValueError:
        raise _invalid(where, "result_bytes is not base64") from None


def _invalid(where: str, says: str) -> Problem:
    return Problem(422, "Invalid request", f"{where}: {says}; nothing was settled")
