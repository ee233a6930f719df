"""What a run leaves behind: what callers wrote down, what the database did, and how it looks at the end."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import time
from typing import Any

from holdfast.domain.states import JobState


class Said(StrEnum):
    """What a caller was told of one job."""

    OK = "ok"
    ALREADY = "already"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Call:
    """A call about one job, from when it was made to when it was answered, in seconds of the one clock here.

    `lease` is what the caller named as guard. For `mark_worker_unresponsive` the job is a worker.
    """

    who: str
    verb: str
    job: str
    lease: str | None
    begun: float
    ended: float
    said: Said


@dataclass(frozen=True, slots=True)
class Delivery:
    """A job that a stream gave to its reader."""

    who: str
    assignee: str
    job: str
    lease: str
    at: float


@dataclass(frozen=True, slots=True)
class Change:
    """A job as it was after something happened to it, written down by the database in the same transaction.

    Per job the numbers are in the order of what happened: whoever changes a row has it locked.
    """

    seq: int
    at: float
    job: str
    state: JobState
    lease: str | None
    stream: int | None
    assignee: str | None
    attempts: int
    lapses: int
    forfeited: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A job as it is at the end, in the line or in the archive."""

    job: str
    archived: bool
    state: JobState
    attempts: int


@dataclass(frozen=True, slots=True)
class History:
    """Everything the checker looks at."""

    calls: list[Call]
    deliveries: list[Delivery]
    capacities: dict[str, int]
    """By assignee: what each stream of it may hold."""
    changes: list[Change]
    rows: list[Row]
    most_held: Mapping[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """By stream and assignee: the most jobs that were seen held at one moment."""
    deadlocks: int = 0
    sessions: int = 0


class Journal:
    """A file of JSON lines that is only appended to; each line is one write, so a kill leaves it whole."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._lock = threading.Lock()
        self._number = 0

    def call(self, who: str, verb: str, items: list[tuple[str, str | None]]) -> int:
        """Write down that a call is made, before it is; return its number."""
        with self._lock:
            self._number += 1
            number = self._number
        self._write({"what": "call", "n": number, "who": who, "verb": verb, "items": items})
        return number

    def reply(self, number: int, said: list[Said]) -> None:
        """Write down what was answered, for each job."""
        self._write({"what": "reply", "n": number, "said": said})

    def opened(self, assignee: str, capacity: int) -> None:
        self._write({"what": "opened", "assignee": assignee, "capacity": capacity})

    def delivered(self, who: str, assignee: str, jobs: list[tuple[str, str]]) -> None:
        self._write({"what": "delivered", "who": who, "assignee": assignee, "jobs": jobs})

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._descriptor, (json.dumps({"at": time(), **line}) + "\n").encode())


@dataclass(slots=True)
class Told:
    """What journals tell."""

    calls: list[Call] = field(default_factory=list[Call])
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    capacities: dict[str, int] = field(default_factory=dict[str, int])


def read_journals(paths: Iterable[Path]) -> Told:
    """Put calls and replies together. A call without a reply may have happened, or may yet."""
    told = Told()
    for path in paths:
        open_calls: dict[int, dict[str, Any]] = {}
        for text in path.read_text().splitlines():
            line = json.loads(text)
            match line["what"]:
                case "call":
                    open_calls[line["n"]] = line
                case "reply":
                    call = open_calls.pop(line["n"])
                    told.calls += _calls(call, line["at"], [Said(each) for each in line["said"]])
                case "opened":
                    told.capacities[line["assignee"]] = line["capacity"]
                case "delivered":
                    told.deliveries += [
                        Delivery(line["who"], line["assignee"], job, lease, line["at"])
                        for job, lease in line["jobs"]
                    ]
                case unknown:
                    raise AssertionError(unknown)
        for call in open_calls.values():
            told.calls += _calls(call, float("inf"), [Said.UNKNOWN] * len(call["items"]))
    return told


def _calls(line: dict[str, Any], ended: float, said: list[Said]) -> list[Call]:
    return [
        Call(line["who"], line["verb"], job, lease, line["at"], ended, each)
        for (job, lease), each in zip(line["items"], said, strict=True)
    ]
