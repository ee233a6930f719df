"""An app without tasks on a database of its own, and jobs in it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from holdfast.app import Holdfast
from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed, Failed, Outcome
from holdfast.store import SyncStore


class Shop:
    """Jobs in every state, made by the engine itself."""

    def __init__(self, app: Holdfast) -> None:
        self.app = app

    @property
    def store(self) -> SyncStore:
        return self.app.stores.blocking()

    def submit(self, *job_ids: str, **more: Any) -> None:
        self.store.submit_jobs(NewJob(job_id=job_id, **{"task": "shop.send", **more}) for job_id in job_ids)

    def ended(self, job_id: str, outcome: Outcome | None = None, worker: str = "ann", **more: Any) -> None:
        self.submit(job_id, **{**more, "queue": "once"})
        (job,) = self.store.claim_jobs(worker, ["once"], 1)
        self.store.settle_jobs([(job.job_id, job.lease_id, outcome or Completed())])

    def dead(self, *job_ids: str, error: str = "no such address", **more: Any) -> None:
        for job_id in job_ids:
            self.ended(job_id, Failed(error, "Traceback: line 7", permanent=True), **more)

    def running(self, job_id: str, worker: str = "bob", **more: Any) -> str:
        self.submit(job_id, **{**more, "queue": "now"})
        (job,) = self.store.claim_jobs(worker, ["now"], 1)
        return job.lease_id

    def states(self, *job_ids: str) -> list[str | None]:
        found = [self.store.get_job(job_id) for job_id in job_ids]
        return [None if job is None else job.state.value for job in found]


@pytest.fixture
def shop(database: str) -> Generator[Shop]:
    with Holdfast(database) as app:
        yield Shop(app)
