"""Every public function of the engine as a coroutine; described in `calls`, which has the arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from holdfast.store.call import Call
from holdfast.store.calls import (
    cancelling,
    claiming,
    leasing,
    operating,
    reading,
    settling,
    submitting,
    verbs,
)
from holdfast.store.methods import asynchronous

R = TypeVar("R")


class AsyncCalls(ABC):
    """The engine's functions, for asyncio."""

    @abstractmethod
    async def run(self, call: Call[R]) -> R:
        """Run a described call and return its answer."""

    submit_job = asynchronous(submitting.submit_job)
    submit_jobs = asynchronous(submitting.submit_jobs)
    submit_plain_job = asynchronous(submitting.submit_plain_job)
    normalize_wait_for = asynchronous(submitting.normalize_wait_for)

    claim_jobs = asynchronous(claiming.claim_jobs)
    claim_waiting_job = asynchronous(claiming.claim_waiting_job)
    get_work = asynchronous(claiming.get_work)
    next_due = asynchronous(claiming.next_due)
    jobs_of_stream = asynchronous(claiming.jobs_of_stream)

    settle_jobs = asynchronous(settling.settle_jobs)
    settle_and_claim = asynchronous(settling.settle_and_claim)

    extend_lease = asynchronous(leasing.extend_lease)
    extend_leases = asynchronous(leasing.extend_leases)
    lapse_leases = asynchronous(leasing.lapse_leases)
    mark_worker_unresponsive = asynchronous(leasing.mark_worker_unresponsive)
    reset_running_jobs = asynchronous(leasing.reset_running_jobs)
    complete_job = asynchronous(leasing.complete_job)
    complete_unheld_job = asynchronous(leasing.complete_unheld_job)
    reschedule_job = asynchronous(leasing.reschedule_job)
    reschedule_unheld_job = asynchronous(leasing.reschedule_unheld_job)
    report_progress = asynchronous(leasing.report_progress)

    fail_job = asynchronous(verbs.fail_job)
    requeue_job = asynchronous(verbs.requeue_job)
    retry_later = asynchronous(verbs.retry_later)
    release_job = asynchronous(verbs.release_job)
    stop_job = asynchronous(verbs.stop_job)
    stop_job_with_retry = asynchronous(verbs.stop_job_with_retry)
    mark_job_unknown_stopped = asynchronous(verbs.mark_job_unknown_stopped)
    acknowledge_cancellation = asynchronous(verbs.acknowledge_cancellation)

    cancel_job = asynchronous(cancelling.cancel_job)
    cancel_jobs = asynchronous(cancelling.cancel_jobs)
    revive_job = asynchronous(cancelling.revive_job)
    clear_crash_concern = asynchronous(cancelling.clear_crash_concern)
    cancel_expired_jobs = asynchronous(cancelling.cancel_expired_jobs)
    delete_jobs = asynchronous(cancelling.delete_jobs)
    cleanup_expired_jobs = asynchronous(cancelling.cleanup_expired_jobs)

    get_job = asynchronous(reading.get_job)
    list_stuck_jobs = asynchronous(reading.list_stuck_jobs)
    list_dead_jobs = asynchronous(reading.list_dead_jobs)
    get_job_stats = asynchronous(reading.get_job_stats)
    get_queue_stats = asynchronous(reading.get_queue_stats)
    tagged_jobs = asynchronous(reading.tagged_jobs)
    held_jobs = asynchronous(reading.held_jobs)
    count_ended_jobs = asynchronous(reading.count_ended_jobs)
    list_waiting_jobs = asynchronous(reading.list_waiting_jobs)
    get_history = asynchronous(reading.get_history)

    acquire_resources = asynchronous(operating.acquire_resources)
    release_resources = asynchronous(operating.release_resources)
    set_resource_capacity = asynchronous(operating.set_resource_capacity)
    resource_capacity = asynchronous(operating.resource_capacity)
    pause_queue = asynchronous(operating.pause_queue)
    resume_queue = asynchronous(operating.resume_queue)
    set_queue_limit = asynchronous(operating.set_queue_limit)
    set_trace = asynchronous(operating.set_trace)
    is_trace_enabled = asynchronous(operating.is_trace_enabled)
    set_trace_level = asynchronous(operating.set_trace_level)
    trace_level = asynchronous(operating.trace_level)
    set_notify = asynchronous(operating.set_notify)
    is_notify_enabled = asynchronous(operating.is_notify_enabled)
    set_crash_concern_threshold = asynchronous(operating.set_crash_concern_threshold)
    crash_concern_threshold = asynchronous(operating.crash_concern_threshold)
    set_archive_retention = asynchronous(operating.set_archive_retention)
    archive_retention = asynchronous(operating.archive_retention)
    report_worker = asynchronous(operating.report_worker)
    upkeep = asynchronous(operating.upkeep)
