"""Every public function of the engine as a blocking method; described in `calls`, which has the arguments."""

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
from holdfast.store.methods import blocking

R = TypeVar("R")


class SyncCalls(ABC):
    """The engine's functions, blocking."""

    @abstractmethod
    def run(self, call: Call[R]) -> R:
        """Run a described call and return its answer."""

    submit_job = blocking(submitting.submit_job)
    submit_jobs = blocking(submitting.submit_jobs)
    submit_plain_job = blocking(submitting.submit_plain_job)
    normalize_wait_for = blocking(submitting.normalize_wait_for)

    claim_jobs = blocking(claiming.claim_jobs)
    claim_waiting_job = blocking(claiming.claim_waiting_job)
    get_work = blocking(claiming.get_work)
    next_due = blocking(claiming.next_due)
    jobs_of_stream = blocking(claiming.jobs_of_stream)

    settle_jobs = blocking(settling.settle_jobs)
    settle_and_claim = blocking(settling.settle_and_claim)

    extend_lease = blocking(leasing.extend_lease)
    extend_leases = blocking(leasing.extend_leases)
    lapse_leases = blocking(leasing.lapse_leases)
    mark_worker_unresponsive = blocking(leasing.mark_worker_unresponsive)
    reset_running_jobs = blocking(leasing.reset_running_jobs)
    complete_job = blocking(leasing.complete_job)
    complete_unheld_job = blocking(leasing.complete_unheld_job)
    reschedule_job = blocking(leasing.reschedule_job)
    reschedule_unheld_job = blocking(leasing.reschedule_unheld_job)
    report_progress = blocking(leasing.report_progress)

    fail_job = blocking(verbs.fail_job)
    requeue_job = blocking(verbs.requeue_job)
    retry_later = blocking(verbs.retry_later)
    release_job = blocking(verbs.release_job)
    stop_job = blocking(verbs.stop_job)
    stop_job_with_retry = blocking(verbs.stop_job_with_retry)
    mark_job_unknown_stopped = blocking(verbs.mark_job_unknown_stopped)
    acknowledge_cancellation = blocking(verbs.acknowledge_cancellation)

    cancel_job = blocking(cancelling.cancel_job)
    cancel_jobs = blocking(cancelling.cancel_jobs)
    revive_job = blocking(cancelling.revive_job)
    clear_crash_concern = blocking(cancelling.clear_crash_concern)
    cancel_expired_jobs = blocking(cancelling.cancel_expired_jobs)
    delete_jobs = blocking(cancelling.delete_jobs)
    cleanup_expired_jobs = blocking(cancelling.cleanup_expired_jobs)

    get_job = blocking(reading.get_job)
    list_stuck_jobs = blocking(reading.list_stuck_jobs)
    list_dead_jobs = blocking(reading.list_dead_jobs)
    get_job_stats = blocking(reading.get_job_stats)
    get_queue_stats = blocking(reading.get_queue_stats)
    tagged_jobs = blocking(reading.tagged_jobs)
    held_jobs = blocking(reading.held_jobs)
    count_ended_jobs = blocking(reading.count_ended_jobs)
    list_waiting_jobs = blocking(reading.list_waiting_jobs)
    get_history = blocking(reading.get_history)

    acquire_resources = blocking(operating.acquire_resources)
    release_resources = blocking(operating.release_resources)
    set_resource_capacity = blocking(operating.set_resource_capacity)
    resource_capacity = blocking(operating.resource_capacity)
    pause_queue = blocking(operating.pause_queue)
    resume_queue = blocking(operating.resume_queue)
    set_queue_limit = blocking(operating.set_queue_limit)
    set_trace = blocking(operating.set_trace)
    is_trace_enabled = blocking(operating.is_trace_enabled)
    set_trace_level = blocking(operating.set_trace_level)
    trace_level = blocking(operating.trace_level)
    set_notify = blocking(operating.set_notify)
    is_notify_enabled = blocking(operating.is_notify_enabled)
    set_crash_concern_threshold = blocking(operating.set_crash_concern_threshold)
    crash_concern_threshold = blocking(operating.crash_concern_threshold)
    set_archive_retention = blocking(operating.set_archive_retention)
    archive_retention = blocking(operating.archive_retention)
    report_worker = blocking(operating.report_worker)
    upkeep = blocking(operating.upkeep)
