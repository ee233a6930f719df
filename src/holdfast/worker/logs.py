"""Log lines on stderr: short ones for people at a terminal, JSON for machines. Standard logging throughout.

A record says what happened in `extra={"event": ...}`. What is written while a handler runs names the job it
runs for, whoever writes it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO, cast

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")

ABOUT: Final = ("job_id", "task", "queue", "attempt")
"""What a line says about a job; absent keys are null in JSON, so that every line has the same."""

_COLOURS: Final = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31;1m"}
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"

# None of these may look at a character again and again: what is logged is as long as people make it, and
# written on the event loop. So what has no end begins only where a run or a word of its own does.
_UP_TO_THE_LAST_AT: Final = re.compile(r"(?<!\S)\S*@")
_DATABASE_USER: Final = re.compile(r"(?i)\bpostgres(?:ql)?(?:\+\w+)?:/+[^\s:/@]*:")
_SECRETS: Final = (
    re.compile(r"((?<=[\w+.-])://[^\s:/@]*:)[^\s/@]+(?=@)"),
    re.compile(
        r"""(?i)((?:password|passwd)(?:\s*=\s*|\\*["']\s*:\s*))(\\*'[^']*'|\\*"[^"]*"|[^\s,;&)'"]+)"""
    ),
)


def scrub(text: str) -> str:
    """The same text without the passwords that stand in database URLs and settings."""
    text = _UP_TO_THE_LAST_AT.sub(_without_password, text)
    for secret in _SECRETS:
        text = secret.sub(r"\g<1>***", text)
    return text


def _without_password(found: re.Match[str]) -> str:
    """Of a database URL all up to the last @ is left out: passwords are written with a bare @ or / too."""
    user = _DATABASE_USER.search(found[0])
    return found[0] if user is None else f"{found[0][: user.end()]}***@"


def set_up(
    log_format: str | None = None, log_level: str | None = None, *, stream: TextIO | None = None
) -> None:
    """Send all logging of this process to stderr. Without a format: text to a terminal, else JSON."""
    out = sys.stderr if stream is None else stream
    on_terminal = out.isatty()
    handler = logging.StreamHandler(out)
    if (log_format or ("text" if on_terminal else "json")) == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(TextLines(coloured=_wants_colour(on_terminal, os.environ)))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel((log_level or "info").upper())
    if root.level > logging.DEBUG:
        # The driver's pools tell of every attempt to connect; that the database is gone is said once, by us.
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


def is_set_up() -> bool:
    """Whether somebody has decided where log lines go: they are left alone."""
    return bool(logging.getLogger().handlers)


def name_worker(worker_id: str) -> None:
    """Name this worker in every line that names none."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.worker_id = worker_id


class JsonLines(logging.Formatter):
    """One object a line; the keys of a line without a job are the same, and null."""

    def __init__(self, worker_id: str | None = None) -> None:
        super().__init__()
        self.worker_id = worker_id

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "log"),
            "message": record.getMessage(),
            **about_job(record),
            "worker_id": getattr(record, "worker_id", None) or self.worker_id,
            "logger": record.name,
        }
        for optional in ("reason", "fields"):
            if value := getattr(record, optional, None):
                line[optional] = value
        if trouble := self._trouble(record):
            line["exception"] = trouble
        return json.dumps(_scrubbed(line))

    def _trouble(self, record: logging.LogRecord) -> str:
        parts: list[str] = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(record.stack_info)
        return "\n".join(parts)


class TextLines(logging.Formatter):
    """Time, level and message; colours only where somebody sees them."""

    def __init__(self, *, coloured: bool = False) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        moment = f"{_moment(record).astimezone():%H:%M:%S}"
        level = f"{record.levelname.lower():<8}"
        if self._coloured:
            moment = f"{_DIM}{moment}{_PLAIN}"
            level = f"{_COLOURS.get(record.levelno, '')}{level}{_PLAIN}"
        parts = [f"{moment} {level}{record.getMessage()}{_remarks(record)}"]
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(record.stack_info)
        return scrub("\n".join(parts))


def about_job(record: logging.LogRecord) -> dict[str, Any]:
    """The job a record is about: the one it names, else the one whose handler wrote it."""
    about = {key: getattr(record, key, None) for key in ABOUT}
    if about["job_id"] is None and (job := _current_job()) is not None:
        about.update(
            job_id=job.job_id,
            attempt=job.attempt,
            task=getattr(job, "task", None),
            queue=getattr(job, "queue", None),
        )
    return about


def _current_job() -> Any:
    # Not imported here: the parent of several processes writes log lines and runs no jobs.
    context = sys.modules.get("holdfast.tasks.context")
    return None if context is None else context.current_job_or_none()


def _remarks(record: logging.LogRecord) -> str:
    """What the message of a line does not say itself."""
    fields: Mapping[str, object] = getattr(record, "fields", None) or {}
    remarks = [f"{name}={value}" for name, value in fields.items()]
    job_id = about_job(record)["job_id"]
    if job_id is not None and str(job_id) not in record.getMessage():
        remarks.append(f"job={job_id}")
    return f"  ({' '.join(remarks)})" if remarks else ""


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _scrubbed(value: object) -> Any:
    """The value in terms of JSON, whatever it is: a line that cannot be written must not end its program."""
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {str(key): _scrubbed(each) for key, each in cast("Mapping[object, object]", value).items()}
        case list() | tuple():
            return [_scrubbed(each) for each in cast("Sequence[object]", value)]
        case _:
            return _in_words(value)


def _in_words(value: object) -> str:
    try:
        return scrub(str(value))
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _wants_colour(on_terminal: bool, environment: Mapping[str, str]) -> bool:
    if environment.get("NO_COLOR"):
        return False
    return on_terminal or bool(environment.get("FORCE_COLOR"))
