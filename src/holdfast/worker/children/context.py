"""What a handler in a child may ask and say while it runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.domain.content import storable_text
from holdfast.domain.job import JsonValue
from holdfast.errors import JobCancelled
from holdfast.worker.children.stopping import StopSwitch

PROGRESS_EVERY_S: Final = 0.1

Say = Callable[[Mapping[str, object]], None]
"""Sends one message about the running job to the worker."""


class ChildContext:
    """One execution, as the app sees it. For every thread; what is said once it is over is not heard."""

    def __init__(
        self, job: Mapping[str, Any], say: Say, switch: StopSwitch, shutting_down: Callable[[], bool]
    ) -> None:
        self.job_id: str = job["job_id"]
        self.task: str = job["task"]
        self.attempt: int = job["attempt"]
        self.deadline_s: float | None = job["deadline_s"]
        """Seconds the handler has from its start."""
        self.meta: Mapping[str, JsonValue] = job["meta"]
        self.shutting_down = shutting_down
        self._say = say
        self._switch = switch
        self._lock = threading.Lock()
        self._progress: Mapping[str, object] | None = None
        self._next_report = 0.0

    def cancelled(self) -> bool:
        """Whether the job is to stop."""
        return self._switch.why is not None

    def check_cancelled(self) -> None:
        """Raise JobCancelled if the job is to stop."""
        if self._switch.why is not None:
            raise JobCancelled(self._switch.why)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the job is: ten times a second at most reach the worker, the last one always."""
        latest: dict[str, object] = {
            "type": "progress",
            "done": _number(done),
            "total": None if total is None else _number(total),
            "message": None if message is None else storable_text(message),
        }
        with self._switch, self._lock:
            self._progress = latest
        self.report()

    def log(self, message: str, /, level: str = "INFO", **fields: object) -> None:
        """Write a line into the worker's log; fields that are no numbers are written as text."""
        plain = {name: _plain(value) for name, value in fields.items()}
        self._say({"type": "log", "level": level, "message": storable_text(message), "fields": plain})

    def report(self, *, now: bool = False) -> None:
        """Send the latest progress, if it is time."""
        with self._switch, self._lock:
            moment = time.monotonic()
            if self._progress is None or (moment < self._next_report and not now):
                return
            self._next_report = moment + PROGRESS_EVERY_S
            latest, self._progress = self._progress, None
            self._say(latest)


class LogForwarder(logging.Handler):
    """Sends what handlers log to the worker; what is logged between jobs goes to stderr."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.say: Say | None = None

    def emit(self, record: logging.LogRecord) -> None:
        say = self.say
        if say is None:
            if logging.lastResort is not None:
                logging.lastResort.handle(record)
            return
        try:
            say(_as_message(record))
        except Exception:
            self.handleError(record)


def _number(value: float) -> float:
    return value if type(value) is int else float(value)  # numbers of other libraries are none to JSON


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int | float) else storable_text(value)


def _as_message(record: logging.LogRecord) -> dict[str, object]:
    message: dict[str, object] = {
        "type": "log",
        "level": record.levelname,
        "logger": record.name,
        "message": storable_text(record.getMessage()),
        "fields": {},
    }
    if record.exc_info:
        message["traceback"] = storable_text(_FORMATTER.formatException(record.exc_info))
    return message


_FORMATTER: Final = logging.Formatter()
