"""What is counted and logged of the jobs a worker runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from holdfast.domain.job import ClaimedJob
from holdfast.domain.outcome import Completed, Failed, Outcome, Rescheduled

if TYPE_CHECKING:
    from holdfast.telemetry import Metrics
    from holdfast.worker.execution import Execution

logger: Final = logging.getLogger("holdfast.worker")


class Accounts:
    """The metrics and log lines of one worker."""

    def __init__(self, metrics: Metrics, worker_id: str, lease_s: float) -> None:
        self._metrics = metrics
        self._worker_id = worker_id
        self._lease_s = lease_s

    def ended(self, ended: Iterable[tuple[Execution, Outcome | None]]) -> None:
        """Executions that have ended, and what is about to be written down of them, if anything."""
        completed = 0
        waits_s: list[float] = []
        runs_s: list[float] = []
        for execution, outcome in ended:
            if execution.ran_s is not None:
                # How long it was due before it was claimed, by the database's clock alone.
                job = execution.job
                waited_s = (job.lease_expires_at - job.available_at).total_seconds() - self._lease_s
                waits_s.append(waited_s if waited_s > 0 else 0.0)
                runs_s.append(execution.ran_s)
            if type(outcome) is Completed:
                completed += 1
            elif outcome is not None:
                self._ended_otherwise(execution.job, outcome)
        if completed:
            self._metrics.count("jobs.completed", completed)
        self._metrics.observe_all("jobs.wait_seconds", waits_s)
        self._metrics.observe_all("jobs.run_seconds", runs_s)

    def _ended_otherwise(self, job: ClaimedJob, outcome: Outcome) -> None:
        match outcome:
            case Failed():
                self._failed(job, outcome)
            case Rescheduled():
                reason = outcome.reason.partition(":")[0]
                self._metrics.count(f"jobs.rescheduled.{reason}")
                logger.info(
                    "job %s is rescheduled (%s)",
                    job.job_id,
                    outcome.reason,
                    extra={"event": "job.rescheduled", "reason": reason, **self._about(job)},
                )
            case _:
                self._metrics.count("jobs.stopped")

    def lost(self, job: ClaimedJob) -> None:
        """Somebody else has a job that is running here."""
        self._metrics.count("jobs.lost")
        logger.warning(
            "job %s is not ours any more; its handler is told to stop",
            job.job_id,
            extra={"event": "job.lost", **self._about(job)},
        )

    def resumed(self, job: ClaimedJob) -> None:
        """The lease of a job that is running here had lapsed, and nobody else has claimed it since."""
        logger.info("the lease of job %s had lapsed; its handler goes on under a new one", job.job_id)

    def refused(self, job_id: str, outcome: Outcome, reason: str) -> None:
        """What was to be written down of a job does not count."""
        self._metrics.count("jobs.lost")
        logger.warning(
            "job %s was lost: that it is %s was refused (%s)",
            job_id,
            type(outcome).__name__.lower(),
            reason,
            extra={"event": "job.lost", "job_id": job_id, "worker_id": self._worker_id},
        )

    def _failed(self, job: ClaimedJob, outcome: Failed) -> None:
        dead = outcome.permanent
        self._metrics.count("jobs.dead" if dead else "jobs.failed")
        logger.warning(
            "job %s %s: %s",
            job.job_id,
            "is dead" if dead else f"failed, next in {outcome.delay_s:.3g} s",
            outcome.message,
            extra={"event": "job.dead" if dead else "job.failed", **self._about(job)},
        )

    def _about(self, job: ClaimedJob) -> dict[str, Any]:
        return {
            "job_id": job.job_id,
            "task": job.task,
            "queue": job.queue,
            "attempt": job.attempts + 1,
            "worker_id": self._worker_id,
        }
