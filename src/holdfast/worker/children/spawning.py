"""Start the process of a child, and say how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast.domain.job import JsonValue
from holdfast.worker.children import frames
from holdfast.worker.children.values import ChildRequest

# Not -m: this process may have found Holdfast on a path that a fresh interpreter does not have (an archive, a
# path set by a program). Last in line, lest its neighbours stand in for Python's own modules.
_BOOT = "import sys; sys.path.append(sys.argv.pop()); from holdfast.worker.children.child import main; main()"

OnMessage = Callable[[str, Mapping[str, JsonValue]], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How children are started, and what they are told."""

    target: str
    directory: str
    kill_after_s: float
    log_level: int
    on_message: OnMessage | None


@dataclass(frozen=True, slots=True)
class Order:
    """A job as it goes over the pipe. The number tells its messages from those of jobs before."""

    number: int
    job_id: str
    data: bytes


def order_for(number: int, request: ChildRequest) -> Order:
    """Raise TypeError or ValueError for a payload that JSON cannot say."""
    frame = {
        "op": "job",
        "n": number,
        "job_id": request.job_id,
        "task": request.task,
        "payload": request.payload,
        "attempt": request.attempt,
        "deadline_s": request.deadline_s,
        "meta": dict(request.meta),
    }
    return Order(number, request.job_id, frames.to_bytes(frame))


def spawn(plan: Plan, descriptor: int) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter. Never a fork: the worker has threads, and a fork copies their held locks."""
    if not sys.executable:
        raise FileNotFoundError("sys.executable does not name a Python to run children with")
    ours = str(Path(holdfast.__file__).parents[1])
    # A child hears nothing until it has decided what to make of it (`StopSwitch.install`): Ctrl-C may come
    # before it has its own session, a service manager's SIGTERM at any time.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        return _popen(plan, descriptor, ours)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _popen(plan: Plan, descriptor: int, ours: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # -P: what lies in the directory must not stand in for Python's own modules while the child starts.
        [sys.executable, "-P", "-c", _BOOT, str(descriptor), str(os.getpid()), ours],
        pass_fds=(descriptor,),
        cwd=plan.directory,
        stdin=subprocess.DEVNULL,
        # A session of its own: Ctrl-C and a hang-up of the terminal reach the worker alone, which decides;
        # and one signal ends all that a handler has started.
        start_new_session=True,
    )


def describe_exit(code: int, *, by_us: bool) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (not by its worker: out of memory?)" if name == "SIGKILL" and not by_us else ""
    return f"killed by {name}{hint}"
