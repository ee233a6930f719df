"""What a handler can ask and say about the job a worker runs it for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from math import inf
from time import monotonic
from typing import Any, Final

from holdfast.domain.job import ClaimedJob
from holdfast.tasks.context import JobContext
from holdfast.worker.endings import Stop

PROGRESS_S: Final = 1.0
"""Progress is written at most once in so long."""

logger: Final = logging.getLogger("holdfast.job")

Report = tuple[float, float | None, str | None]


class RunContext(JobContext):
    """The job in hand. Thread-safe: a handler may pass it on to threads of its own."""

    # What most jobs never change stands with the class, and costs them nothing.
    deadline: datetime | None = None
    stop: Stop | None = None
    latest: Report | None = None
    """What the handler said last and nobody has written down."""
    has_spoken = False
    """Whether there was any progress, be it written or not."""
    is_over = False
    """Whether the handler has ended."""
    _written_at = -inf

    def __init__(
        self, job: ClaimedJob, is_stopping: Callable[[], bool], tell: Callable[[RunContext], None]
    ) -> None:
        self.job_id = job.job_id
        self.attempt = job.attempts + 1
        self.tags = job.tags
        self.job = job
        self._is_stopping = is_stopping
        self._tell = tell

    @property
    def task(self) -> str | None:
        return self.job.task

    @property
    def queue(self) -> str:
        return self.job.queue

    def cancelled(self) -> bool:
        return self.stop is not None

    def shutting_down(self) -> bool:
        return self._is_stopping()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        said: Report = (float(done), None if total is None else float(total), message)
        with _saying:
            first, self.latest, self.has_spoken = self.latest is None, said, True
        if first:
            self._tell(self)

    def wait_s(self) -> float:
        """How long the latest word has to wait until it may be written."""
        return max(0.0, self._written_at + PROGRESS_S - monotonic())

    def take(self) -> Report | None:
        """The latest word, to be written now."""
        with _saying:
            latest, self.latest = self.latest, None
        if latest is not None:
            self._written_at = monotonic()
        return latest

    def log(self, message: str, **fields: Any) -> None:
        about = {"event": "job.log", "job_id": self.job_id, "task": self.task, "queue": self.queue}
        logger.info("%s", message, extra={**about, "attempt": self.attempt, "fields": fields})


_saying: Final = threading.Lock()
"""One for all: it is held for a moment, and one for each job would cost every job that says nothing."""
