"""Every public function that changes a job: how it is called, how it answers, what it is held to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import psycopg

from holdfast.domain.lifecycle import Operation, When
from tests.engine import answers
from tests.engine import expectations as expect
from tests.engine.answers import LISTS, LISTS_OR_RAISES, RAISES, TRUTH, Answer, Manner, Refusal, Row
from tests.engine.expectations import Case, Given, Judge, Steps
from tests.engine.jobs_in_state import (
    EXTENSION,
    HINDERED,
    JOB,
    LAST_ATTEMPT,
    QUEUE,
    STAGES,
    TAG,
    WORKER,
    Connection,
    Stage,
    query,
)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """One way to ask for one operation."""

    call: str
    operation: Operation | None
    when: When
    manner: Manner
    judge: Judge
    stages: tuple[Stage, ...] = STAGES

    def __str__(self) -> str:
        return re.sub(r"%\((\w+)\)s", r"\1", self.call)

    @property
    def function(self) -> str:
        return self.call.partition("(")[0]

    @property
    def reaches_all(self) -> bool:
        """Whether it changes every job that fits, not only the one on the stage."""
        return self.function == "reset_running_jobs"

    @property
    def names_a_lease(self) -> bool:
        return "%(lease)s" in self.call

    @property
    def names_a_worker(self) -> bool:
        return "%(worker)s" in self.call

    def ask(self, conn: Connection, given: Given) -> Answer:
        """Call it. An error is an answer too, and undoes nothing but this call."""
        names = {"job": JOB, "queue": QUEUE, "tag": TAG, "holder": WORKER}
        proofs = {"lease": given.lease_id, "worker": given.worker_id}
        parameters = {**names, **proofs, "extension": EXTENSION.total_seconds()}
        try:
            with conn.transaction():
                return self.manner.read(query(conn, f"select * from holdfast.{self.call}", parameters))
        except psycopg.Error as error:
            return Answer(False, error.sqlstate, error.diag.message_primary or "")

    def expect(self, stage: Stage, job: Row | None, given: Given) -> Steps | Refusal:
        return self.judge(Case(self.operation, self.when, stage, job, given))


# Short names, so that an entry of the tables below is a line.
_O: Final = Operation
_ALWAYS: Final = When.ALWAYS
_LEFT: Final = When.ATTEMPTS_LEFT
_LAST: Final = When.LAST_OR_PERMANENT
_EXECUTING: Final = When.WAS_EXECUTING
_NOT_EXECUTING: Final = When.WAS_NOT_EXECUTING

_LATE: Final = """, p_results => array['"late"'::jsonb]"""
_BOOM: Final = ", p_messages => '{boom}'"
_FOR_EVER: Final = f"{_BOOM}, p_permanent => '{{true}}'"

# The kinds of settle_jobs: operation, variant, kind, further arrays, stages.
_KINDS: Final = (
    (_O.COMPLETE, _ALWAYS, "complete", _LATE, STAGES),
    (_O.FAIL, _LEFT, "fail", _BOOM, STAGES),
    (_O.FAIL, _LAST, "fail", _BOOM, LAST_ATTEMPT),
    (_O.FAIL, _LAST, "fail", _FOR_EVER, STAGES),
    (_O.REQUEUE, _LEFT, "requeue", _BOOM, STAGES),
    (_O.REQUEUE, When.LAST_ATTEMPT, "requeue", _BOOM, LAST_ATTEMPT),
    (_O.RESCHEDULE, When.HANDED_BACK, "reschedule", ", p_delays => '{5}'", STAGES),
    (_O.RELEASE, _ALWAYS, "release", "", STAGES),
    (_O.UNDELIVERED, When.QUEUE_STREAM, "undelivered", "", STAGES),
    (_O.UNDELIVERED, When.WORKER_STREAM, "undelivered_to_worker", "", STAGES),
    (_O.STOP, _ALWAYS, "stop", _BOOM, STAGES),
    (_O.STOP_WITH_RETRY, _ALWAYS, "stop_with_retry", _BOOM, STAGES),
    (_O.MARK_UNKNOWN_STOPPED, _ALWAYS, "mark_unknown_stopped", _BOOM, STAGES),
    (_O.ACKNOWLEDGE_CANCELLATION, _EXECUTING, "acknowledge", "", STAGES),
    (_O.ACKNOWLEDGE_CANCELLATION, _NOT_EXECUTING, "acknowledge_not_executing", "", STAGES),
)

# The verbs that settle one job: call, operation, variant, manner, stages.
_VERBS: Final = (
    ("fail_job(%(job)s, 'boom'", _O.FAIL, _LEFT, RAISES, STAGES),
    ("fail_job(%(job)s, 'boom'", _O.FAIL, _LAST, RAISES, LAST_ATTEMPT),
    ("fail_job(%(job)s, 'boom', p_permanent => true", _O.FAIL, _LAST, RAISES, STAGES),
    ("requeue_job(%(job)s", _O.REQUEUE, _LEFT, RAISES, STAGES),
    ("requeue_job(%(job)s", _O.REQUEUE, When.LAST_ATTEMPT, RAISES, LAST_ATTEMPT),
    ("retry_later(%(job)s, p_delay => 5", _O.RESCHEDULE, When.HANDED_BACK, TRUTH, STAGES),
    ("release_job(%(job)s", _O.RELEASE, _ALWAYS, TRUTH, STAGES),
    ("stop_job(%(job)s, 'enough'", _O.STOP, _ALWAYS, RAISES, STAGES),
    ("stop_job_with_retry(%(job)s, 'boom'", _O.STOP_WITH_RETRY, _ALWAYS, RAISES, STAGES),
    ("mark_job_unknown_stopped(%(job)s", _O.MARK_UNKNOWN_STOPPED, _ALWAYS, RAISES, STAGES),
    ("acknowledge_cancellation(%(job)s, true", _O.ACKNOWLEDGE_CANCELLATION, _EXECUTING, RAISES, STAGES),
    ("acknowledge_cancellation(%(job)s, false", _O.ACKNOWLEDGE_CANCELLATION, _NOT_EXECUTING, RAISES, STAGES),
)

# What else a holder may do: call, operation, variant, manner, judge. Seed 003 records whoever calls.
_OWN: Final = "%(job)s, %(lease)s, 'whoever'"
_GUARDS: Final = "p_lease_id => %(lease)s, p_worker_id => %(worker)s"
_REWRITE: Final = "'further', p_payload => '[]'"
_BY_HOLDER: Final = (
    (f"complete_job({_OWN})", _O.COMPLETE, _ALWAYS, RAISES, expect.under_lease),
    (f"reschedule_job({_OWN}, {_REWRITE})", _O.RESCHEDULE, When.REWRITTEN, RAISES, expect.under_lease),
    (
        f"extend_lease({_OWN}, %(extension)s::integer)",
        *(_O.EXTEND, When.LEASE_NOT_LAPSED, RAISES, expect.under_lease),
    ),
    (
        "extend_leases(array[%(job)s], array[%(lease)s], %(extension)s)",
        *(_O.EXTEND, When.BY_KEEPER, answers.EXTENSION, expect.keeping),
    ),
    (
        "report_progress(%(job)s, %(lease)s, 2, 2, 'done')",
        *(_O.REPORT_PROGRESS, _ALWAYS, TRUTH, expect.reporting),
    ),
    (
        f"acquire_resources(%(job)s, '{{tool,another}}', {_GUARDS})",
        *(None, _ALWAYS, RAISES, expect.taking_resources),
    ),
    (
        f"release_resources(%(job)s, null, {_GUARDS})",
        *(None, _ALWAYS, TRUTH, expect.giving_resources_back),
    ),
)

# What anybody may ask for: call, operation, variant, manner, judge.
_QUEUES: Final = "array[%(queue)s, 'more']"
_CLAIM: Final = (_O.CLAIM, When.READY, LISTS)
_CANCELS: Final = (_O.CANCEL, _ALWAYS, answers.CANCELLATION, expect.upon_all_that_fit)
_DELETES: Final = (_O.DELETE, _ALWAYS, answers.COUNTS_OR_RAISES, expect.deleting)
_BY_ANYBODY: Final = (
    ("submit_job(%(job)s, 'producer', %(queue)s)", _O.SUBMIT, _ALWAYS, LISTS_OR_RAISES, expect.submitting),
    ("submit_jobs(array[%(job)s])", _O.SUBMIT, _ALWAYS, LISTS_OR_RAISES, expect.submitting),
    ("submit_plain_job(%(job)s)", _O.SUBMIT, _ALWAYS, RAISES, expect.submitting),
    (f"claim_jobs('claimer', {_QUEUES}, 5)", *_CLAIM, expect.sweeping_and_claiming),
    (f"claim_jobs('claimer', {_QUEUES}, 5, p_sweep => false)", *_CLAIM, expect.claiming),
    (f"claim_waiting_job(%(job)s, 'claimer', {_QUEUES}, 5, p_sweep => false)", *_CLAIM, expect.claiming),
    ("get_work('claimer', array[%(queue)s])", *_CLAIM, expect.sweeping_and_claiming),
    (
        f"settle_and_claim('{{}}', '{{}}', '{{}}', 'claimer', {_QUEUES}, 5)",
        *(*_CLAIM, expect.sweeping_and_claiming),
    ),
    ("lapse_leases()", _O.LAPSE, When.LEASE_LAPSED, LISTS, expect.sweeping),
    (
        "get_work('claimer', '{nowhere}')",
        *(_O.LAPSE, When.LEASE_LAPSED, answers.SAYS_NOTHING, expect.sweeping),
    ),
    (
        "mark_worker_unresponsive(%(holder)s)",
        *(_O.MARK_WORKER_UNRESPONSIVE, _ALWAYS, TRUTH, expect.upon_all_that_fit),
    ),
    (
        "reset_running_jobs()",
        *(_O.RESET_RUNNING_JOBS, _ALWAYS, answers.SAYS_NOTHING, expect.upon_all_that_fit),
    ),
    (
        "complete_unheld_job(%(job)s, 'operator')",
        *(_O.COMPLETE_UNHELD, When.UNHELD, RAISES, expect.unheld),
    ),
    (
        f"reschedule_unheld_job(%(job)s, 'operator', {_REWRITE})",
        *(_O.RESCHEDULE_UNHELD, When.UNHELD, LISTS_OR_RAISES, expect.unheld),
    ),
    (
        "clear_crash_concern(%(job)s, 'operator')",
        *(_O.CLEAR_CRASH_CONCERN, When.SIDELINED, answers.COUNTS_OR_RAISES, expect.clearing),
    ),
    ("cancel_job(%(job)s, 'operator', 'why')", _O.CANCEL, _ALWAYS, LISTS_OR_RAISES, expect.by_anybody),
    ("cancel_jobs(p_job_ids => array[%(job)s])", *_CANCELS),
    ("cancel_jobs(p_tags => array[%(tag)s])", *_CANCELS),
    ("cancel_expired_jobs(60)", _O.CANCEL, _ALWAYS, TRUTH, expect.expiring),
    ("revive_job(%(job)s)", _O.REVIVE, _ALWAYS, RAISES, expect.by_anybody),
    ("delete_jobs(p_job_ids => array[%(job)s])", *_DELETES),
    ("delete_jobs(p_tags => array[%(tag)s])", *_DELETES),
    ("cleanup_expired_jobs(5)", _O.CLEANUP, When.OLDER_THAN_TTL, TRUTH, expect.upon_all_that_fit),
)


def _entry_points() -> Iterator[EntryPoint]:
    for operation, when, kind, arrays, stages in _KINDS:
        batch = f"array[%(job)s], array['{kind}'], array[%(lease)s]"
        one_call = f"settle_jobs({batch}, p_worker_id => %(worker)s{arrays})"
        yield EntryPoint(one_call, operation, when, answers.VERDICT, expect.settling, stages)
        one_beat = f"settle_and_claim({batch}, 'claimer', array[%(queue)s], 0{arrays})"
        yield EntryPoint(one_beat, operation, when, answers.REFUSED_ROWS, expect.settling, stages)
    for verb, operation, when, manner, stages in _VERBS:
        yield EntryPoint(f"{verb}, {_GUARDS})", operation, when, manner, expect.settling, stages)
    for call, held_operation, when, manner, judge in _BY_HOLDER:
        yield EntryPoint(call, held_operation, when, manner, judge)
    for call, operation, when, manner, judge in _BY_ANYBODY:
        yield EntryPoint(call, operation, when, manner, judge, (*STAGES, *HINDERED))


ENTRY_POINTS: Final = tuple(_entry_points())
