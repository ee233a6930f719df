"""Append-only journals: every process writes down what it asks before it asks, and what it was told.

Each line is one write to a file opened for appending, so a kill leaves all lines but perhaps the last whole;
and what was written survives the writer, because the kernel has it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

DIRECTORY_VARIABLE = "GAUNTLET_JOURNALS"


class Journal:
    """The journal of one process."""

    def __init__(self, directory: Path, name: str) -> None:
        path = directory / f"{name}-{os.getpid()}.jsonl"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._lock = threading.Lock()
        self._number = 0

    def call(self, op: str, items: list[Any], **more: Any) -> int:
        """Write down that something is asked for these jobs; answers the number to reply under."""
        with self._lock:
            self._number += 1
            number = self._number
        self.write("call", n=number, op=op, items=items, **more)
        return number

    def reply(self, number: int, said: Any, **more: Any) -> None:
        """`said` is ok, no or unknown, for all jobs of the call or for each in a list."""
        self.write("reply", n=number, said=said, **more)

    def write(self, what: str, **line: Any) -> None:
        text = json.dumps({"what": what, "at": time(), **line}, separators=(",", ":"))
        os.write(self._descriptor, text.encode() + b"\n")


_journals: dict[tuple[int, str], Journal] = {}


def journal(name: str) -> Journal:
    """The journal of this process, a forked one included."""
    key = (os.getpid(), name)
    if key not in _journals:
        _journals[key] = Journal(Path(os.environ[DIRECTORY_VARIABLE]), name)
    return _journals[key]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; the last one of a killed process may be torn and is left out."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
