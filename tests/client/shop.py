"""Tasks of an app, and jobs done by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast import Holdfast
from holdfast.domain.job import ClaimedJob
from holdfast.domain.outcome import Completed, Failed, Outcome
from holdfast.store import SyncStore
from holdfast.tasks import Task, decode_arguments, encode_result


class Shop:
    """A few tasks."""

    def __init__(self, hf: Holdfast) -> None:
        @hf.task(name="shop.mail", queue="mail")
        def mail(to: str, subject: str = "hello") -> int:
            return len(to)

        @hf.task(name="shop.remind")
        async def remind(at: datetime) -> datetime:
            return at

        @hf.task(name="shop.fetch")
        def fetch(url: str) -> bytes:
            return url.encode()

        self.hf, self.mail, self.remind, self.fetch = hf, mail, remind, fetch


def claim(store: SyncStore, *queues: str) -> ClaimedJob:
    """The next job, by hand."""
    (job,) = store.claim_jobs("by-hand", queues or ("default", "mail"))
    return job


def settle(store: SyncStore, job: ClaimedJob, outcome: Outcome) -> None:
    (verdict,) = store.settle_jobs([(job.job_id, job.lease_id, outcome)])
    assert verdict.ok, verdict


def work(store: SyncStore, task: Task[..., Any]) -> None:
    """Do what a worker does for the next job, which must be one of a plain function."""
    job = claim(store)
    args, kwargs = decode_arguments(task, job.payload)
    settle(store, job, Completed(encode_result(task, task.fn(*args, **kwargs))))


def kill(store: SyncStore, job: ClaimedJob, message: str = "ValueError: no") -> None:
    settle(store, job, Failed(message, "Traceback: here", permanent=True))
