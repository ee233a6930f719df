"""Writing down what executions came to, for many jobs at once. A settle never fails on content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Final, assert_never, cast

from holdfast.domain.content import CONTENT_BYTES, storable_json, storable_text
from holdfast.domain.job import Content
from holdfast.domain.outcome import (
    COMPLETED,
    Acknowledged,
    Completed,
    Failed,
    Outcome,
    Reason,
    Released,
    Requeued,
    Rescheduled,
    Stopped,
    StoppedWithRetry,
    Undelivered,
    UnknownStopped,
    Verdict,
)
from holdfast.errors import InvalidArgument
from holdfast.store import arguments, arrays, rows
from holdfast.store.arguments import Duration
from holdfast.store.call import OWN_TRANSACTION, Call, Rows, Unread, statement
from holdfast.store.calls.claiming import (
    CLAIM_WAITING_JOB,
    ClaimTerms,
    Floor,
    named_claim,
    sweep_terms,
)
from holdfast.store.values import Attendance, ClaimedLater, SettledAndClaimed, Settlement

SETTLE_JOBS: Final = statement(
    "settle_jobs",
    rows.VERDICT_COLUMNS,
    p_job_ids="text[]",
    p_operations="text[]",
    p_lease_ids="text[]",
    p_results="jsonb[]",
    p_result_bytes="bytea[]",
    p_messages="text[]",
    p_tracebacks="text[]",
    p_delays="double precision[]",
    p_permanent="boolean[]",
    p_worker_id="text",
    p_stream_id="bigint",
    p_available_at="timestamptz[]",
    p_only_refused="boolean",
)

SETTLE_AND_CLAIM: Final = statement(
    "settle_and_claim",
    rows.BRIEF_COLUMNS,
    p_job_ids="text[]",
    p_operations="text[]",
    p_lease_ids="text[]",
    p_results="jsonb[]",
    p_result_bytes="bytea[]",
    p_messages="text[]",
    p_tracebacks="text[]",
    p_delays="double precision[]",
    p_permanent="boolean[]",
    p_worker_id="text",
    p_queues="text[]",
    p_limit="integer",
    p_lease_seconds="double precision",
    p_tags="text[]",
    p_stream_id="bigint",
    p_sweep="boolean",
    p_floor_at="timestamptz",
    p_floor_id="bigint",
    p_floor_priority="integer",
    p_listener="bigint",
    p_waits_seconds="double precision",
    p_present_seconds="double precision",
    p_take_resources="boolean",
    p_brief="boolean",
    p_own_transaction=OWN_TRANSACTION,
)

_NOT_STORED: Final = {"[holdfast]": "there was a result, and the database refused to store it"}
_DUE_AT: Final = rows.BRIEF_COLUMNS.split(", ").index("available_at")
_NOW: Final = rows.BRIEF_COLUMNS.split(", ").index("created_at")
"""Where the row about the future has its two moments."""


def settle_jobs(
    settlements: Iterable[Settlement],
    *,
    worker_id: str | None = None,
    stream_id: int | None = None,
    timeout_s: float | None = None,
) -> Call[list[Verdict]]:
    """Settle jobs, each as far as it can be; a verdict for each, in the order given.

    A result or an error text that cannot be stored is made storable and says so. If every settlement names
    its lease, a lost answer is asked for again: what the first call ended is then `already`, what it handed
    back is `lease_lost`.
    """
    settled = list(settlements)
    terms = (
        arguments.optional_text(worker_id, "worker_id"),
        arguments.whole(stream_id, "stream_id", least=-arguments.BIGINT - 1, most=arguments.BIGINT),
        arrays.of_moments([_moment(outcome, job_id) for job_id, _, outcome in settled]),
        "f",
    )
    return Call(
        SETTLE_JOBS,
        (*_columns(settled), *terms),
        rows.verdicts,
        idempotent=_is_fenced(settled),
        timeout_s=timeout_s,
        plainer=lambda: (*_columns(settled, bare=True), *terms),
    )


def settle_and_claim(
    settlements: Iterable[Settlement],
    terms: ClaimTerms,
    limit: int,
    *,
    sweep: bool = True,
    floor: Floor | None = None,
    waiting: str | None = None,
    attendance: Attendance | None = None,
    take_resources: bool = False,
    meanwhile: Callable[[], None] | None = None,
    timeout_s: float | None = None,
) -> Call[SettledAndClaimed]:
    """Settle what is done and claim up to `limit` jobs, in one round trip and one commit.

    Outcomes carry delays here; one that names a moment is refused. With a limit of 0 nothing is claimed. When
    its answer is lost it is not repeated: settle again by `settle_jobs`, whose verdicts tell what the first
    call did; what it claimed comes back as leases lapse.

    Whoever has nothing to settle and was told of a job that is `waiting` may name it: that saves a third
    of the time. Then it is not asked when the next job becomes due.

    What was claimed is read from the answer when somebody looks at it: the next call may be sent before.
    `meanwhile` is done as soon as this one is sent.
    """
    settled = list(settlements)
    if waiting is not None and not settled:
        parameters = named_claim(terms, waiting, limit, sweep=sweep, floor=floor)
        return Call(CLAIM_WAITING_JOB, parameters, _only_claimed, idempotent=False, timeout_s=timeout_s)
    claim = (
        *terms.for_up_to(limit, least=0),
        *sweep_terms(sweep, floor),
        *_attendance_terms(attendance),
        arguments.flag(take_resources, "take_resources"),
        "t",
    )
    return Call(
        SETTLE_AND_CLAIM,
        (*_columns(settled, delays_only=True), *claim),
        _settled_and_claimed,
        idempotent=limit == 0 and _is_fenced(settled),
        timeout_s=timeout_s,
        plainer=lambda: (*_columns(settled, bare=True), *claim),
        parse_unread=_claimed_unread,
        meanwhile=meanwhile,
    )


def _columns(
    settlements: Sequence[Settlement], *, bare: bool = False, delays_only: bool = False
) -> arrays.Columns:
    """The arrays of a settle, side by side. A column that says nothing is not sent at all."""
    # The server waits for this. To let zip take thousands of tuples apart takes four times as long.
    job_ids = [job_id for job_id, _, _ in settlements]
    outcomes = [outcome for _, _, outcome in settlements]
    jobs = arrays.of_texts(job_ids, "job_id")
    if '""' in jobs and "" in job_ids:
        raise InvalidArgument("job_id is empty")
    lease_ids = arrays.of_texts([lease_id for _, lease_id, _ in settlements], "lease_id")
    if all(outcome is COMPLETED for outcome in outcomes):  # what most calls say
        completions = _completions(len(outcomes))
        return arrays.for_one_statement((jobs, completions, lease_ids, *(None,) * 6), "settle_jobs")
    if delays_only and any(map(_moment, outcomes, job_ids)):
        raise InvalidArgument("settle_and_claim takes delays, not moments: use settle_jobs for those")
    written = [
        _write(_bare(outcome) if bare else outcome, job_id)
        for job_id, outcome in zip(job_ids, outcomes, strict=True)
    ]
    operations, results, raw, messages, tracebacks, delays, permanent = zip(*written, strict=True)
    columns = (
        jobs,
        arrays.of_texts(cast("Sequence[str]", operations), "operation"),
        lease_ids,
        arrays.of_json(cast("Sequence[str | None]", results), "result"),
        arrays.of_bytes(cast("Sequence[bytes | None]", raw)),
        arrays.of_json(cast("Sequence[str | None]", messages), "message"),
        arrays.of_json(cast("Sequence[str | None]", tracebacks), "traceback"),
        arrays.of_numbers(cast("Sequence[float | None]", delays)),
        arrays.of_flags(cast("Sequence[bool]", permanent)),
    )
    return arrays.for_one_statement(columns, "settle_jobs")


@lru_cache(maxsize=8)
def _completions(count: int) -> str:
    return arrays.of_texts(("complete",) * count, "operation")


_Written = tuple[str, str | None, bytes | None, str | None, str | None, float | None, bool]
_COMPLETED: Final[_Written] = ("complete", None, None, None, None, None, False)


def _write(outcome: Outcome, job_id: str) -> _Written:
    """Operation, result as JSON or bytes, message, traceback, delay, permanent."""
    match outcome:
        case Completed(None):
            return _COMPLETED
        case Completed(result):
            return ("complete", *storable_content(result), None, None, None, False)
        case Failed(message, traceback, delay_s, permanent):
            delay_s = _delay(delay_s, job_id)
            return "fail", None, None, storable_text(message), _trace(traceback), delay_s, permanent
        case Requeued(delay_s, message):
            said = storable_text(message) if message else None
            return "requeue", None, None, said, None, _delay(delay_s, job_id), False
        case Rescheduled(delay_s, reason, queue, wait_for, payload):
            if queue is not None or wait_for is not None or payload is not None:
                raise InvalidArgument(
                    f'a settle of "{job_id}" cannot change queue, wait_for or payload: use reschedule_job'
                )
            return "reschedule", None, None, storable_text(reason), None, _delay(delay_s, job_id), False
        case Released():
            return "release", None, None, None, None, None, False
        case Stopped(message):
            return "stop", None, None, storable_text(message), None, None, False
        case StoppedWithRetry(message, traceback):
            return "stop_with_retry", None, None, storable_text(message), _trace(traceback), None, False
        case UnknownStopped(message):
            return "mark_unknown_stopped", None, None, storable_text(message), None, None, False
        case Acknowledged(was_executing):
            operation = "acknowledge" if was_executing else "acknowledge_not_executing"
            return operation, None, None, None, None, None, False
        case Undelivered(message, to_worker_stream):
            operation = "undelivered_to_worker" if to_worker_stream else "undelivered"
            return operation, None, None, storable_text(message), None, None, False
        case _:
            assert_never(outcome)


def storable_content(result: Content) -> tuple[str | None, bytes | None]:
    """A result as JSON text or bytes; never raise."""
    if not isinstance(result, bytes | bytearray | memoryview):
        return storable_json(result), None
    if len(result) > CONTENT_BYTES:
        note = f"[holdfast: {len(result):,} bytes left out; at most {CONTENT_BYTES:,} are stored]"
        return storable_json(note), None
    return None, bytes(result)


def _trace(traceback: str | None) -> str | None:
    return None if traceback is None else storable_text(traceback)


def _delay(delay_s: Duration, job_id: str) -> float:
    return arguments.seconds(delay_s, f'delay_s of job "{job_id}"')


def _moment(outcome: Outcome, job_id: str) -> datetime | None:
    """When the job is due again, if a person said so."""
    if not isinstance(outcome, Requeued | Rescheduled) or outcome.available_at is None:
        return None
    if outcome.delay_s:
        raise InvalidArgument(f'a settle of "{job_id}" has a moment and a delay: give one of them')
    return arguments.aware(outcome.available_at, f'available_at of job "{job_id}"')


def _attendance_terms(attendance: Attendance | None) -> tuple[str | None, str | None, str | None]:
    listener, waits_s, present_s = attendance or (None, None, None)
    return (
        arguments.whole(listener, "listener", most=arguments.BIGINT),
        arguments.duration(waits_s, "waits_s", positive=True),
        arguments.duration(present_s, "present_s", positive=True),
    )


def _is_fenced(settlements: Sequence[Settlement]) -> bool:
    return all(lease_id is not None for _, lease_id, _ in settlements)


def _settled_and_claimed(answer: Rows) -> SettledAndClaimed:
    """What was refused comes first, then what was claimed, or when something becomes due."""
    refused: list[Verdict] = []
    for place, (kind, reason, state, *rest) in enumerate(answer):
        if kind == "claim":
            return SettledAndClaimed(refused, rows.briefly_claimed_jobs(answer[place:]), None, None)
        if kind == "next":
            due_at, now = answer[place][_DUE_AT], answer[place][_NOW]
            return SettledAndClaimed(refused, [], due_at, due_at and (due_at - now).total_seconds())
        if reason != Reason.ALREADY:
            refused.append(rows.verdict(rest[0], False, state, reason))
    return SettledAndClaimed(refused, [], None, None)


def _claimed_unread(answer: Unread) -> SettledAndClaimed | None:
    """All but the first row are jobs, if nothing was refused."""
    if answer.first != b"claim":
        return None
    claimed = ClaimedLater(answer.count - 1, lambda: rows.briefly_claimed_jobs(answer.read()))
    return SettledAndClaimed([], claimed, None, None)


def _only_claimed(answer: Rows) -> SettledAndClaimed:
    return SettledAndClaimed([], rows.claimed_jobs(answer), None, None)


def _bare(outcome: Outcome) -> Outcome:
    """The same outcome with content that nothing can object to."""
    match outcome:
        case Completed(result):
            return outcome if result is None else Completed(_NOT_STORED)
        case Failed(message, traceback) | StoppedWithRetry(message, traceback):
            traceback = None if traceback is None else _in_ascii(traceback)
            return replace(outcome, message=_in_ascii(message), traceback=traceback)
        case Requeued() | Stopped() | UnknownStopped() | Undelivered():
            return replace(outcome, message=_in_ascii(outcome.message))
        case Rescheduled():
            return replace(outcome, reason=_in_ascii(outcome.reason))
        case Released() | Acknowledged():
            return outcome
        case _:
            assert_never(outcome)


def _in_ascii(text: str) -> str:
    return storable_text(text).encode("ascii", "backslashreplace").decode()
