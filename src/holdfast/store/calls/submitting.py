"""Putting jobs in line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar, get_args

from holdfast.domain.content import CONTENT_BYTES, encode_json
from holdfast.domain.job import Content, IfParentFails, NewJob
from holdfast.errors import InvalidArgument, PayloadError
from holdfast.store import arguments, arrays
from holdfast.store.call import OWN_TRANSACTION, Call, Parameter, Rows, only_value, statement
from holdfast.store.values import SubmittedJob

T = TypeVar("T")

_REST: Final = (
    "available_at",
    "delay_s",
    "expires_at",
    "tags",
    "resource_keys",
    "singleton_key",
    "max_attempts",
    "wait_for",
    "if_parent_fails",
    "timeout_s",
    "retry",
    "created_at",
)
_rest_of: Final[Callable[[NewJob], tuple[Any, ...]]] = attrgetter(*_REST)
_NOTHING: Final = _rest_of(NewJob())
_UNSAID: Final = (None,) * len(_REST)

_PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9_.:@/ -]{1,40}").fullmatch
_BYTES: Final = (bytes, bytearray, memoryview)

_POLICIES: Final = (None, *get_args(IfParentFails))

SUBMIT_JOB: Final = statement(
    "submit_job",
    "job_id, next_need, wait_for, available_at",
    p_job_id="text",
    p_worker_id="text",
    p_next_need="text",
    p_wait_for="text[]",
    p_payload="jsonb",
    p_singleton_key="text",
    p_available_at="timestamptz",
    p_expires_at="timestamptz",
    p_task="text",
    p_priority="integer",
    p_tags="text[]",
    p_resource_keys="text[]",
    p_max_attempts="integer",
    p_if_parent_fails="text",
    p_delay="double precision",
    p_timeout="double precision",
    p_retry="jsonb",
    p_payload_bytes="bytea",
    p_created_at="timestamptz",
)

SUBMIT_JOBS: Final = statement(
    "submit_jobs",
    "job_id",
    p_job_ids="text[]",
    p_queues="text[]",
    p_payloads="jsonb[]",
    p_tasks="text[]",
    p_priorities="integer[]",
    p_available_at="timestamptz[]",
    p_delays="double precision[]",
    p_expires_at="timestamptz[]",
    p_tags="jsonb[]",
    p_resource_keys="jsonb[]",
    p_singleton_keys="text[]",
    p_max_attempts="integer[]",
    p_wait_for="jsonb[]",
    p_if_parent_fails="text[]",
    p_timeouts="double precision[]",
    p_retries="jsonb[]",
    p_payload_bytes="bytea[]",
    p_created_at="timestamptz[]",
    p_worker_id="text",
    p_own_transaction=OWN_TRANSACTION,
)

SUBMIT_PLAIN_JOB: Final = statement(
    "submit_plain_job",
    p_job_id="text",
    p_queue="text",
    p_payload="jsonb",
    p_task="text",
    p_own_transaction=OWN_TRANSACTION,
)
"""The same for one job that says nothing but this, as most do: 50 to 80 µs less for the server."""

NORMALIZE_WAIT_FOR: Final = statement("normalize_wait_for", p_wait_for="text[]")


def submit_job(job: NewJob, worker_id: str, *, timeout_s: float | None = None) -> Call[SubmittedJob]:
    """Submit one job under an id the caller chose, and say what it really waits for.

    Raises JobExists if the id is taken, PayloadError or InvalidArgument for what no job can have.
    """
    if job.job_id is None:
        raise InvalidArgument("submit_job needs job_id; submit_jobs generates ids")
    payload, payload_bytes = encode_content(job.payload, "payload")

    def parse(rows: Rows) -> SubmittedJob:
        job_id, queue, wait_for, available_at = rows[0]
        return SubmittedJob(job_id, queue, tuple(wait_for), job.payload, available_at)

    parameters = (
        arguments.text(job.job_id, "job_id"),
        arguments.text(worker_id, "worker_id"),
        arguments.queue(job.queue, "queue"),
        arguments.text_array(job.wait_for, "wait_for"),
        payload,
        arguments.optional_text(job.singleton_key, "singleton_key"),
        arguments.moment(job.available_at, "available_at"),
        arguments.moment(job.expires_at, "expires_at"),
        arguments.optional_text(job.task, "task"),
        arguments.whole(job.priority, "priority", least=-arguments.INTEGER - 1),
        arguments.text_array(job.tags, "tags"),
        arguments.text_array(job.resource_keys, "resource_keys"),
        arguments.whole(job.max_attempts, "max_attempts"),
        _policy(job.if_parent_fails, "if_parent_fails"),
        arguments.duration(job.delay_s, "delay_s"),
        arguments.duration(job.timeout_s, "timeout_s", positive=True),
        arguments.mapping(job.retry, "retry"),
        payload_bytes,
        arguments.moment(job.created_at, "created_at"),
    )
    return Call(SUBMIT_JOB, parameters, parse, idempotent=False, timeout_s=timeout_s)


def submit_jobs(
    jobs: Iterable[NewJob], *, worker_id: str | None = None, timeout_s: float | None = None
) -> Call[list[str]]:
    """Submit jobs, all or none, in one statement; answer their ids in the order given.

    They may wait for each other. Raises JobExists, PayloadError or InvalidArgument naming the job, and then
    nothing is stored.
    """
    listed = list(jobs)
    plain = _of_plain_job(listed[0]) if len(listed) == 1 and worker_id is None else None
    if plain is not None:
        return _plain_submission(plain, timeout_s)
    columns = arrays.for_one_statement(_Batch(listed).arrays(), "submit_jobs")
    parameters = (*columns, arguments.optional_text(worker_id, "worker_id"))
    return Call(SUBMIT_JOBS, parameters, _ids, idempotent=False, timeout_s=timeout_s)


def submit_plain_job(job: NewJob, *, timeout_s: float | None = None) -> Call[list[str]]:
    """As `submit_jobs` for one job that says nothing but queue, task, payload and perhaps an id.

    `submit_jobs` finds out by itself; here InvalidArgument is raised for a job that says more.
    """
    plain = _of_plain_job(job)
    if plain is None:
        raise InvalidArgument(f"{job!r} is not plain: use submit_jobs")
    return _plain_submission(plain, timeout_s)


def columns_of(call: Call[list[str]]) -> Sequence[Parameter]:
    """The parameters that `SUBMIT_JOBS` takes for what a call submits."""
    if call.statement is SUBMIT_JOBS:
        return call.parameters
    job_id, queue, payload, task = (
        None if said is None else arrays.of_texts([str(said)], "job") for said in call.parameters
    )
    return (job_id, queue, payload, task, *_UNSAID, None, None, None)


def normalize_wait_for(wait_for: Iterable[str | None], *, timeout_s: float | None = None) -> Call[list[str]]:
    """Which of these jobs one can wait for: completed ones and None drop out, unknown ones are an error."""
    named = arguments.texts((job_id for job_id in wait_for if job_id is not None), "wait_for")
    return Call(
        NORMALIZE_WAIT_FOR,
        (arrays.of_texts(named, "wait_for"),),
        only_value,
        idempotent=True,
        timeout_s=timeout_s,
    )


def encode_content(content: Content, where: str) -> tuple[str | None, bytes | None]:
    """A payload as it is stored: JSON text, or bytes, or neither."""
    if content is None:
        return None, None
    if not isinstance(content, bytes | bytearray | memoryview):
        return encode_json(content, where=where), None
    raw = bytes(content)
    if len(raw) > CONTENT_BYTES:
        raise PayloadError(
            f"{where}: {len(raw):,} bytes, at most {CONTENT_BYTES:,} are taken; "
            "store it elsewhere and pass a reference"
        )
    return None, raw


def _plain_submission(said: Sequence[Parameter], timeout_s: float | None) -> Call[list[str]]:
    return Call(SUBMIT_PLAIN_JOB, said, _ids, idempotent=False, timeout_s=timeout_s)


def _of_plain_job(job: NewJob) -> tuple[str | None, ...] | None:
    """What `SUBMIT_PLAIN_JOB` takes for a job with nothing special about it, as most are; None: look closer.

    After a wait for the database the code itself has to be fetched again: all of `_Batch` took 77 µs then.
    """
    queue, task, job_id, payload = job.queue, job.task, job.job_id, job.payload
    if (
        _rest_of(job) != _NOTHING
        or type(job.priority) is not int
        or job.priority
        or type(payload) in _BYTES
        or not _is_plain(queue)
        or not (task is None or _is_plain(task))
        or not (job_id is None or _is_plain(job_id))
    ):
        return None
    text = None if payload is None else encode_content(payload, "jobs[0].payload")[0]
    return None if payload is not None and text is None else (job_id, queue, text, task)


def _is_plain(text: str) -> bool:
    """Whether a text is short and needs no check."""
    return type(text) is str and _PLAIN_TEXT(text) is not None


class _Batch:
    """Jobs turned into columns. A column that says nothing is not sent at all."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs

    def arrays(self) -> tuple[str | None, ...]:
        jobs = self.jobs
        contents = [encode_content(job.payload, f"jobs[{place}].payload") for place, job in enumerate(jobs)]
        *rest, created_at = self._rest()
        return (
            self._texts("job_id", [job.job_id for job in jobs]),
            self._queues([job.queue for job in jobs]),
            arrays.of_json([payload for payload, _ in contents], "payload"),
            self._texts("task", [job.task for job in jobs]),
            self._priorities([job.priority for job in jobs]),
            *rest,
            arrays.of_bytes([raw for _, raw in contents]),
            created_at,
        )

    def _rest(self) -> tuple[str | None, ...]:
        """What few jobs say anything about. Asked of all twelve at once, a plain job takes half the time."""
        jobs = self.jobs
        if all(_rest_of(job) == _NOTHING for job in jobs):
            return _UNSAID
        return (
            arrays.of_moments(
                self._each("available_at", [job.available_at for job in jobs], arguments.aware)
            ),
            arrays.of_numbers(self._each("delay_s", [job.delay_s for job in jobs], arguments.seconds)),
            arrays.of_moments(self._each("expires_at", [job.expires_at for job in jobs], arguments.aware)),
            self._lists("tags", [job.tags for job in jobs]),
            self._lists("resource_keys", [job.resource_keys for job in jobs]),
            self._texts("singleton_key", [job.singleton_key for job in jobs]),
            arrays.of_numbers(
                self._each("max_attempts", [job.max_attempts for job in jobs], arguments.whole_number)
            ),
            self._lists("wait_for", [job.wait_for for job in jobs]),
            self._texts("if_parent_fails", [job.if_parent_fails for job in jobs], _policy),
            arrays.of_numbers(self._each("timeout_s", [job.timeout_s for job in jobs], _timeout)),
            arrays.of_json(self._each("retry", [job.retry for job in jobs], arguments.mapping), "retry"),
            arrays.of_moments(self._each("created_at", [job.created_at for job in jobs], arguments.aware)),
        )

    def _each(self, name: str, values: Sequence[Any], check: Callable[[Any, str], T]) -> list[T | None]:
        """Check those that say something, naming the job. None at all says nothing, and is most columns."""
        if arrays.says_nothing(values):
            return []
        return [
            None if value is None else check(value, f"jobs[{place}].{name}")
            for place, value in enumerate(values)
        ]

    def _texts(
        self,
        name: str,
        values: Sequence[str | None],
        check: Callable[[Any, str], str | None] = arguments.text,
    ) -> str | None:
        checked = self._each(name, values, check)
        return arrays.of_texts(checked, f"jobs.{name}") if checked else None

    def _queues(self, values: Sequence[str]) -> str:
        # Most calls name one queue many times over.
        for value in set(values) if set(map(type, values)) == {str} else values:
            arguments.queue(value, "queue")
        return arrays.of_texts(values, "queue")

    def _priorities(self, values: Sequence[int]) -> str | None:
        if set(map(type, values)) == {int} and not any(values):
            return None
        return arrays.of_numbers(self._each("priority", values, _priority))

    def _lists(self, name: str, values: Sequence[Iterable[str]]) -> str | None:
        if not any(values):
            return None
        written = [
            encode_json(arguments.texts(value, f"jobs[{place}].{name}")) if value else None
            for place, value in enumerate(values)
        ]
        return arrays.of_texts(written, name)


def _priority(value: int, name: str) -> int:
    return arguments.whole_number(value, name, least=-arguments.INTEGER - 1)


def _timeout(value: arguments.Duration, name: str) -> float:
    return arguments.seconds(value, name, positive=True)


def _policy(value: str | None, name: str) -> str | None:
    if value not in _POLICIES:
        raise InvalidArgument(f"{name} must be wait, cancel or run, not {value!r}")
    return value


def _ids(rows: Rows) -> list[str]:
    return [row[0] for row in rows]
