"""Writing down what became of jobs: one call, `settle_jobs`, whatever the verb, for one job or for many.

The call names the stream that holds the jobs, if one of this queue does, so that the database need not signal
what this process knows already; the streams are told what was settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

from holdfast.domain.lifecycle import sources
from holdfast.domain.outcome import Acknowledged, Outcome, Reason, Released, Verdict, operation_of
from holdfast.domain.states import JobState
from holdfast.errors import HoldfastError, InvalidArgument, JobNotFound, LeaseLost, WrongState
from holdfast.queue import checks
from holdfast.queue.checks import WorkerId
from holdfast.store import Settlement, arguments
from holdfast.store.calls.settling import settle_jobs
from holdfast.store.steps import Steps, ask

T = TypeVar("T")

Told: TypeAlias = tuple[str, T] | tuple[str, T, str | None]
"""A job and what to say of it; a third element is the lease it must be held under."""


class Holdings(Protocol):
    """What the streams of a queue must hear of."""

    def owner_of(self, job_id: str) -> tuple[int, str] | None: ...
    def settled(self, holds: Iterable[tuple[str, str]]) -> None: ...
    def forfeited(self, job_id: str, lease_id: str) -> None: ...
    def unclear(self) -> None: ...
    def cancelling(self, job_ids: Iterable[str]) -> None: ...


def settle_one(
    holdings: Holdings,
    job_id: str,
    say: Callable[[], Outcome],
    lease_id: str | None = None,
    worker_id: WorkerId | None = None,
) -> Steps[JobState]:
    """Settle one job and answer its state; raise JobNotFound, LeaseLost or WrongState if it cannot be."""
    verdict, outcome = yield from _try_one(holdings, job_id, say, lease_id, worker_id)
    if verdict.status is None or not verdict.ok:
        raise refusal(verdict, outcome)
    return verdict.status


def try_one(holdings: Holdings, job_id: str, say: Callable[[], Outcome]) -> Steps[bool]:
    """Settle one job, and answer whether anything changed: whatever stands in the way is no error."""
    verdict, _ = yield from _try_one(holdings, job_id, say, None, None)
    return verdict.ok


def settle_many(
    holdings: Holdings,
    told: Iterable[Told[T]],
    say: Callable[[T], Outcome],
    worker_id: WorkerId | None = None,
) -> Steps[list[Verdict]]:
    """Settle each job as far as it can be; a verdict for each, in the order given."""
    if not isinstance(told, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(
            f"jobs must be a list of pairs, each a job id and what to say of it, not {told!r}"
        )
    settlements = [_settlement(each, place, say) for place, each in enumerate(told)]
    return (yield from settle_all(holdings, settlements, checks.guard(worker_id)))


def refusal(verdict: Verdict, outcome: Outcome) -> HoldfastError:
    """The error for a verdict, in the words the engine has for it."""
    operation = operation_of(outcome)
    match verdict.reason:
        case Reason.NOT_FOUND:
            return JobNotFound(
                f'job "{verdict.job_id}" does not exist, so it cannot be changed by {operation}'
            )
        case Reason.LEASE_LOST:
            return LeaseLost(
                f'{operation}: the caller does not hold job "{verdict.job_id}" (any more); it is '
                f"{verdict.status} and was claimed, handed back or ended since"
            )
        case _:
            wanted = sources(operation)
            starts = ", ".join(state for state in JobState if state in wanted)
            return WrongState(
                f'{operation}: job "{verdict.job_id}" is {verdict.status}, which this operation does not '
                f"start from; it starts from {starts}"
            )


def _try_one(
    holdings: Holdings,
    job_id: str,
    say: Callable[[], Outcome],
    lease_id: str | None,
    worker_id: WorkerId | None,
) -> Steps[tuple[Verdict, Outcome]]:
    settlement = (checks.text(job_id, "job_id"), arguments.optional_text(lease_id, "lease_id"), say())
    (verdict,) = yield from settle_all(holdings, [settlement], checks.guard(worker_id))
    return verdict, settlement[2]


def _settlement(told: Told[T], place: int, say: Callable[[T], Outcome]) -> Settlement:
    """One element of a list, checked; an error names its place."""
    # A text has elements too: "ab" is not job "a" with result "b".
    if not isinstance(told, tuple | list) or len(cast("Sequence[Any]", told)) not in _LENGTHS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(
            f"jobs[{place}] must be a pair of a job id and what to say of it, or three with a lease id, "
            f"not {told!r}"
        )
    job_id, content, *rest = cast("Sequence[Any]", told)
    try:
        outcome = say(content)
        lease_id = arguments.optional_text(rest[0], "lease_id") if rest else None
        return checks.text(job_id, "job_id"), lease_id, outcome
    except InvalidArgument as error:
        raise type(error)(f"jobs[{place}]: {error}") from None


_LENGTHS: Final = (2, 3)


def settle_all(
    holdings: Holdings, settlements: Sequence[Settlement], worker_id: str | None = None
) -> Steps[list[Verdict]]:
    """One call for each stream that holds some of the jobs, and one for the rest.

    A job named again goes into a call of its own after the first: what is said first is judged first.
    """
    times: dict[str, int] = {}
    places: dict[tuple[int, int | None], list[int]] = {}
    held: dict[int, str] = {}
    for place, (job_id, _, outcome) in enumerate(settlements):
        time = times[job_id] = times.get(job_id, -1) + 1
        # Whoever releases a job takes its holder for gone, and is not the holder.
        hold = None if isinstance(outcome, Released) else holdings.owner_of(job_id)
        if hold is not None:
            held[place] = hold[1]
        places.setdefault((time, hold and hold[0]), []).append(place)
    verdicts: dict[int, Verdict] = {}
    for (_, owner), mine in places.items():
        part = [settlements[place] for place in mine]
        answered = yield from ask(settle_jobs(part, worker_id=worker_id, stream_id=owner))
        # After each call: should the next one fail, the streams know of this one.
        _tell(holdings, part, answered, [held.get(place) for place in mine])
        verdicts.update(zip(mine, answered, strict=True))
    return [verdicts[place] for place in range(len(settlements))]


def _tell(
    holdings: Holdings,
    settlements: Sequence[Settlement],
    verdicts: Sequence[Verdict],
    held: Sequence[str | None],
) -> None:
    freed: list[tuple[str, str]] = []
    for (job_id, named, outcome), verdict, found in zip(settlements, verdicts, held, strict=True):
        lease_id = named or found
        if not verdict.ok or lease_id is None:
            continue
        if verdict.reason == Reason.ALREADY:
            # Perhaps it was somebody else who ended it so, and gave its slot up with it.
            holdings.unclear()
            continue
        if isinstance(outcome, Acknowledged) and not outcome.was_executing:
            holdings.forfeited(job_id, lease_id)
        else:
            freed.append((job_id, lease_id))
    if freed:
        holdings.settled(freed)
