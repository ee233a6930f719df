"""The blocking queue, for threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar

from holdfast.errors import HoldfastError
from holdfast.queue import endings, opening, verbs
from holdfast.queue.base import MOST_LISTED, QueueBase
from holdfast.queue.checks import WorkerId
from holdfast.queue.faces import SyncStream
from holdfast.queue.settling import Told
from holdfast.queue.terms import stream_terms
from holdfast.queue.values import Content, Duration, Job, JobStats, Verdict
from holdfast.store import CancelledJobs, SyncStore
from holdfast.store.steps import Steps, run_blocking

R = TypeVar("R")


class SyncQueue(QueueBase[SyncStore]):
    """The queue by hand, blocking: every verb, one call each, in a transaction of its own.

    Any number of threads may share one. Open it with `with`, or with `open()` and `close()`. In everything
    else it is as `Queue`.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = "holdfast",
        lease: Duration = 30.0,
        poll: Duration = 5.0,
    ) -> None:
        super().__init__(dsn, schema=schema, lease=lease, poll=poll)
        self._changing = threading.Lock()

    def open(self) -> None:
        """Reach the database and check its schema; nothing happens if the queue is open already.

        Raises DatabaseUnavailable, SchemaMissing, SchemaTooOld or SchemaTooNew, and may then be tried again.
        A queue that was closed stays closed: QueueClosed.
        """
        with self._changing:
            if self._closed:
                raise self._not_open()
            if self._opened is None:
                database = opening.reach(self._dsn, self._schema)
                try:
                    store = SyncStore(database.dsn, schema=self._schema)
                    store.open()
                except BaseException:
                    database.close()
                    raise
                self._open_parts(store, database)

    def close(self) -> None:
        """End all streams, then close the connections; a second close does nothing.

        What a stream had not delivered goes back in line. Verbs called from now on raise QueueClosed.
        """
        with self._changing:
            opened = self._close_parts()
            if opened is None:
                return
            try:
                opened.streams.close()
            finally:
                try:
                    opened.store.close()
                finally:
                    opened.database.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Putting jobs in line

    def enqueue_job(self, job: Job) -> str:
        """Put a job in line and answer its id; raise JobExists if the id is taken, by a finished job too.

        Those who enqueue at the same time share a call and a commit; each has its own answer or error.
        """
        return self._run(verbs.enqueue_job(job))

    def enqueue_jobs(self, jobs: Iterable[Job]) -> list[str]:
        """Put jobs in line, all or none, in one statement; answer their ids in the order given."""
        return self._run(verbs.enqueue_jobs(jobs))

    # Streams

    def stream_jobs(
        self,
        assignee_id: WorkerId,
        tags: Iterable[str] | None = None,
        max_assigned_jobs: int = 1,
        *,
        queues: Iterable[str] = ("default",),
        lease: Duration | None = None,
    ) -> SyncStream:
        """Jobs pushed as they come: `with queue.stream_jobs(...) as stream: for batch in stream`.

        Claims at once, and ahead of the reader, jobs of these queues that have all these tags (none: all
        jobs), never more at a time than `max_assigned_jobs`. `lease` is how long each is held between two
        signs of life of this process, the queue's own unless given; a thread of the queue gives them until
        the job is settled.
        """
        opened = self._require_open()
        terms = stream_terms(
            assignee_id, tags, max_assigned_jobs, queues, self._lease_s if lease is None else lease
        )
        return SyncStream(opened.streams, opened.store, terms)

    # What became of a job

    def complete_job(
        self,
        job_id: str,
        result: Content = None,
        *,
        lease_id: str | None = None,
        worker_id: WorkerId | None = None,
    ) -> None:
        """The job is done: COMPLETED, from RUNNING, CANCELLING, UNKNOWN_RETRY or UNKNOWN_STOPPED.

        A result that JSON cannot write raises PayloadError before anything is asked, and the job stays held.
        """
        self._run(endings.complete_job(self._streams, job_id, result, (lease_id, worker_id)))

    def fail_job(
        self,
        job_id: str,
        error: str,
        *,
        delay: Duration = 0,
        permanent: bool = False,
        lease_id: str | None = None,
        worker_id: WorkerId | None = None,
    ) -> bool:
        """The execution failed and counts: FAILED_RETRY, due again after `delay`. True: it is DEAD now.

        DEAD at the last of its `max_attempts`, or when the failure is `permanent`. From RUNNING or
        UNKNOWN_RETRY.
        """
        return self._run(
            endings.fail_job(self._streams, job_id, error, delay, permanent, (lease_id, worker_id))
        )

    def stop_job(
        self,
        job_id: str,
        error: str = "",
        *,
        lease_id: str | None = None,
        worker_id: WorkerId | None = None,
    ) -> None:
        """End the job for good: STOPPED, from RUNNING, CANCELLING or UNKNOWN_RETRY; `error` may be empty."""
        self._run(endings.stop_job(self._streams, job_id, error, (lease_id, worker_id)))

    def stop_job_with_retry(
        self,
        job_id: str,
        error: str = "",
        *,
        lease_id: str | None = None,
        worker_id: WorkerId | None = None,
    ) -> None:
        """The job failed while it was being cancelled: STOPPED, and the attempt counts. From CANCELLING."""
        self._run(endings.stop_job_with_retry(self._streams, job_id, error, (lease_id, worker_id)))

    def mark_job_unknown_stopped(
        self,
        job_id: str,
        error: str = "",
        *,
        lease_id: str | None = None,
        worker_id: WorkerId | None = None,
    ) -> None:
        """Nobody can say what became of it: UNKNOWN_STOPPED, from RUNNING, CANCELLING or UNKNOWN_RETRY."""
        self._run(endings.mark_job_unknown_stopped(self._streams, job_id, error, (lease_id, worker_id)))

    def acknowledge_cancellation(
        self,
        job_id: str,
        was_executing: bool,
        *,
        lease_id: str | None = None,
        worker_id: WorkerId | None = None,
    ) -> None:
        """Answer a cancellation: STOPPED if it was executing, else UNKNOWN_STOPPED. From CANCELLING.

        A job that was not executing does not give its stream the room back.
        """
        self._run(
            endings.acknowledge_cancellation(self._streams, job_id, was_executing, (lease_id, worker_id))
        )

    # The same for many jobs

    def complete_jobs(
        self, jobs: Iterable[Told[Content]], *, worker_id: WorkerId | None = None
    ) -> list[Verdict]:
        """Complete jobs, each as far as it can be: `[(job_id, result), …]`, a verdict for each in that order.

        A third element guards the one job by its lease: `(job_id, result, lease_id)`. So in all plural forms.
        """
        return self._run(endings.complete_jobs(self._streams, jobs, worker_id))

    def fail_jobs(self, jobs: Iterable[Told[str]], *, worker_id: WorkerId | None = None) -> list[Verdict]:
        """Count a failure of each job, due again at once: `[(job_id, error), …]`, a verdict for each."""
        return self._run(endings.fail_jobs(self._streams, jobs, worker_id))

    def stop_jobs(self, jobs: Iterable[Told[str]], *, worker_id: WorkerId | None = None) -> list[Verdict]:
        """Stop jobs for good: `[(job_id, error), …]`, a verdict for each."""
        return self._run(endings.stop_jobs(self._streams, jobs, worker_id))

    def stop_jobs_with_retry(
        self, jobs: Iterable[Told[str]], *, worker_id: WorkerId | None = None
    ) -> list[Verdict]:
        """Stop jobs that failed while being cancelled: `[(job_id, error), …]`, a verdict for each."""
        return self._run(endings.stop_jobs_with_retry(self._streams, jobs, worker_id))

    def mark_jobs_unknown_stopped(
        self, jobs: Iterable[Told[str]], *, worker_id: WorkerId | None = None
    ) -> list[Verdict]:
        """End jobs of which nobody can say what became: `[(job_id, error), …]`, a verdict for each."""
        return self._run(endings.mark_jobs_unknown_stopped(self._streams, jobs, worker_id))

    def acknowledge_cancellations(
        self, jobs: Iterable[Told[bool]], *, worker_id: WorkerId | None = None
    ) -> list[Verdict]:
        """Answer cancellations: `[(job_id, was_executing), …]`, a verdict for each."""
        return self._run(endings.acknowledge_cancellations(self._streams, jobs, worker_id))

    # Handing back

    def requeue_job(
        self,
        job_id: str,
        available_at: datetime | None = None,
        *,
        error: str = "",
        lease_id: str | None = None,
        worker_id: WorkerId | None = None,
    ) -> bool:
        """Put a running job back after a transient trouble; it counts as an attempt. True: it is DEAD now.

        Due at the moment given, else at once. Without a text the last error message stays.
        """
        return self._run(
            endings.requeue_job(self._streams, job_id, available_at, error, (lease_id, worker_id))
        )

    def reschedule_job(
        self,
        job_id: str,
        available_at: datetime,
        *,
        lease_id: str | None = None,
        worker_id: WorkerId | None = None,
    ) -> None:
        """Put a running job back unharmed: RESCHEDULED, due at that moment, attempts and error untouched."""
        self._run(endings.reschedule_job(self._streams, job_id, available_at, (lease_id, worker_id)))

    def retry_later(self, job_id: str, available_at: datetime) -> bool:
        """Put a running job back unharmed, due at that moment; False if it is not running, or not there."""
        return self._run(endings.retry_later(self._streams, job_id, available_at))

    def release(self, job_id: str) -> bool:
        """Take a job away from a worker that is gone: UNKNOWN_RETRY, eligible at once; False if none held it.

        One that was being cancelled becomes UNKNOWN_STOPPED. Until the next claim a late result is taken.
        """
        return self._run(endings.release(self._streams, job_id))

    # Cancelling

    def cancel_jobs(
        self, tags: Iterable[str] | None = None, job_ids: Iterable[str] | None = None
    ) -> CancelledJobs:
        """Cancel every job that has all these tags, and those named: `(cancelled, unknown)`, ids each.

        What waits ends at once, UNSCHEDULED or STOPPED; what runs becomes CANCELLING and waits for its
        worker's word. Named ids that do not exist or have ended are `unknown`. Neither tags nor ids is
        InvalidArgument.
        """
        return self._run(verbs.cancel_jobs(self._streams, tags, job_ids))

    def revive_job(self, job_id: str) -> None:
        """Bring a DEAD job back in line: RESCHEDULED, due now, its attempts at 0 again."""
        self._run(verbs.revive_job(job_id))

    # Workers that are gone

    def mark_worker_unresponsive(self, assignee_id: WorkerId) -> int:
        """Take every job away from a worker: UNKNOWN_RETRY, or UNKNOWN_STOPPED if it was being cancelled.

        Answers how many. They keep assignee and lease, so that a late result is taken until the next claim.
        """
        return self._run(verbs.mark_worker_unresponsive(self._streams, assignee_id))

    def reset_running_jobs(self) -> int:
        """Take every held job away from whoever holds it, after everything was down; answer how many."""
        return self._run(verbs.reset_running_jobs(self._streams))

    def list_stuck_jobs(self, stale: Duration, *, limit: int = MOST_LISTED) -> list[Job]:
        """List held jobs whose last claim or extension is longer ago than this, the oldest first."""
        return self._run(verbs.list_stuck_jobs(stale, limit))

    def list_dead_jobs(self, queue: str | None = None, *, limit: int = MOST_LISTED) -> list[Job]:
        """List DEAD jobs of one queue or of all, the latest first."""
        return self._run(verbs.list_dead_jobs(queue, limit))

    # Reading and forgetting

    def get_job(self, job_id: str) -> Job:
        """Read a job, live or finished; raise JobNotFound if there is none."""
        return self._run(verbs.get_job(job_id))

    def get_job_stats(self, tags: Iterable[str] | None = None) -> JobStats:
        """Count the jobs that have all these tags; without tags, all jobs."""
        return self._run(verbs.get_job_stats(tags))

    def cleanup_expired_jobs(self, ttl: Duration) -> int:
        """Delete COMPLETED jobs that ended longer ago than this; answer how many."""
        return self._run(verbs.cleanup_expired_jobs(ttl))

    def delete_jobs(self, tags: Iterable[str] | None = None, job_ids: Iterable[str] | None = None) -> int:
        """Delete every job that has all these tags, and those named, all or nothing; answer how many.

        Raises WrongState if one has not ended, or if a live job waits for one. Unknown ids are passed over.
        Neither tags nor ids is InvalidArgument. The ids are free again.
        """
        return self._run(verbs.delete_jobs(tags, job_ids))

    # Taking jobs by hand

    def claim_jobs(
        self,
        worker_id: WorkerId,
        *,
        queues: Iterable[str] = verbs.DEFAULT_QUEUES,
        tags: Iterable[str] = (),
        limit: int = 1,
        lease: Duration = 30.0,
    ) -> list[Job]:
        """Claim up to `limit` jobs that are due and have all these tags: by priority, then by due time.

        They are RUNNING, and yours for as long as the lease says; nobody extends it for you.
        """
        return self._run(verbs.claim_jobs(worker_id, queues, tags, limit, lease))

    def acquire_next(self, queue: str, worker_id: WorkerId, lock_duration: Duration) -> Job | None:
        """Claim the next job of a queue for so long; None if nothing is due."""
        return self._run(verbs.acquire_next(queue, worker_id, lock_duration))

    def heartbeat_job(self, job_id: str, worker_id: WorkerId, extend: Duration) -> datetime:
        """Extend the lease of a job that this worker holds; answer its new end.

        Never shortens it; whole seconds, rounded up. Raises LeaseLost if another worker holds it or the lease
        has lapsed, WrongState if the job is being cancelled or has ended.
        """
        return self._run(verbs.heartbeat_job(job_id, worker_id, extend))

    def extend_lease(self, job_id: str, lease_id: str, extend: Duration) -> datetime:
        """Extend a lease; answer its new end. As `heartbeat_job`, for whoever knows the lease."""
        return self._run(verbs.extend_lease(job_id, lease_id, extend))

    # Resources

    def acquire_resource(self, key: str, job_id: str, worker_id: WorkerId) -> None:
        """Take a resource for a running job until its lease ends; again is no error.

        Raises ResourceBusy if as many others hold it as may, WrongState if the job is not RUNNING, LeaseLost
        if another worker holds the job.
        """
        self._run(verbs.acquire_resource(key, job_id, worker_id))

    def release_resource(self, key: str, job_id: str) -> bool:
        """Give a resource back before the lease ends; False if the job did not hold it."""
        return self._run(verbs.release_resource(key, job_id))

    def set_resource_capacity(self, key: str, capacity: int) -> None:
        """Say how many jobs may hold a resource at once; 1 unless said."""
        self._run(verbs.set_resource_capacity(key, capacity))

    def _run(self, steps: Steps[R]) -> R:
        """Take a verb through its steps."""
        store = self._require_open().store
        try:
            return run_blocking(store, steps)
        except HoldfastError as error:
            explained = self._explained(error)
            if explained is error:
                raise
            raise explained from error
