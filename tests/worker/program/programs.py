"""`holdfast worker` as a real process, with a small app of its own, and what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

LIMIT_S = 60.0

APP = """
import asyncio, os, sys, threading, time, logging
from datetime import timedelta
from holdfast import Holdfast, current_job

hf = Holdfast()

def begun() -> None:
    sys.stdout.write(f"begun {current_job().job_id}\\n")

@hf.task
async def quick(number: int) -> int:
    return number * 2

@hf.task
async def in_loop(seconds: float) -> str:
    begun()
    await asyncio.sleep(seconds)
    return "slept"

@hf.task
def in_thread(seconds: float) -> str:
    begun()
    time.sleep(seconds)
    return "slept"

@hf.task(run_in="process")
def in_process(seconds: float) -> str:
    begun()
    time.sleep(seconds)
    return "slept"

@hf.task
async def until_stopped() -> str:
    begun()
    while not current_job().shutting_down():
        await asyncio.sleep(0.01)
    return "saw it"

@hf.task
async def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)

@hf.task(retry=1)
async def fail() -> None:
    raise ValueError("cannot reach postgresql://shop:s3cret@db.example/orders")

@hf.task
async def leave_a_thread(seconds: float) -> None:
    threading.Thread(target=time.sleep, args=(seconds,), daemon=False).start()

@hf.task
async def talk() -> int:
    logging.getLogger("shop").warning("hello from the handler")
    return os.getpid()
"""


def wait_for(condition: Callable[[], Any], what: str = "it", limit_s: float = LIMIT_S) -> Any:
    """Look until it is so, for what no signal tells us of; what was found."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
    return found


class Program:
    """A started `holdfast worker`; its lines are read as they come."""

    def __init__(self, *arguments: str, cwd: Path, **environment: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "worker", *arguments],
            cwd=cwd,
            env={**_surroundings(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def events(self, *names: str) -> list[dict[str, Any]]:
        """The JSON lines so far, of these events if some are named."""
        found = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [line for line in found if not names or line["event"] in names]

    def saw(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until it has logged an event so often."""
        self.until(lambda: len(self.events(event)) >= count, event)
        return self.events(event)

    def began(self, *job_ids: str) -> None:
        """Wait until their handlers run: at a stop, a job not begun is handed back without a word."""
        lines = {f"begun {job_id}" for job_id in job_ids}
        self.until(lambda: lines <= set(self.lines), f"{job_ids} to begin")

    def until(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert self._process.poll() is None or condition(), f"ended before {what}:\n{self.text}"
            assert time.monotonic() < deadline, f"waited in vain for {what}:\n{self.text}"
            time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self, within_s: float = LIMIT_S) -> int:
        """Wait for its end: the exit code."""
        code = self._process.wait(within_s)
        self._reader.join(LIMIT_S)
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        return self.ended()

    def close(self) -> None:
        """Leave nobody behind: not the program, and not those a killed supervisor left."""
        for pid in _in_session(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._reader.join(5)
            self._process.stdout.close()


@contextmanager
def running(*arguments: str, cwd: Path, **environment: str) -> Generator[Program]:
    """A worker that is killed at the end, should it still be there."""
    program = Program(*arguments, cwd=cwd, **environment)
    try:
        yield program
    finally:
        program.close()


def write_app(directory: Path, text: str = APP, name: str = "shop") -> Path:
    (directory / f"{name}.py").write_text(text)
    return directory


def is_alive(pid: int) -> bool:
    """Whether the process is there, and more than a name that nobody has read yet."""
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def children_of(pid: int) -> list[int]:
    """The processes it started and that are alive."""
    return [each for each, (state, parent, _) in _processes().items() if parent == str(pid) and state != "Z"]


def _in_session(leader: int) -> list[int]:
    return [each for each, (_, _, session) in _processes().items() if session == str(leader)]


def _processes() -> dict[int, tuple[str, str, str]]:
    """State, parent and session of every process there is."""
    found = {}
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                found[int(entry.name)] = (state, parent, session)
    return found


class Shop:
    """The jobs of the app, from outside."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn

    def ask(self, task: str, *args: Any, queue: str = "default") -> str:
        """Enqueue as any SQL client would; the job's id."""
        row = self._conn.execute(
            "select * from holdfast.submit_jobs(p_queues => array[%s], p_tasks => array[%s],"
            " p_payloads => array[%s::jsonb])",
            [queue, f"shop.{task}", json.dumps({"args": args, "kwargs": {}})],
        ).fetchone()
        assert row is not None
        return str(row[0])

    def look(self, job_id: str, *columns: str) -> tuple[Any, ...]:
        sql = f"select {', '.join(columns)} from holdfast.get_job(%s)"
        row: tuple[Any, ...] | None = self._conn.execute(sql, [job_id]).fetchone()
        assert row is not None
        return row

    def state(self, job_id: str) -> str:
        return str(self.look(job_id, "state::text")[0])

    def wait(self, state: str, *job_ids: str) -> None:
        """Wait until all of them are in this state."""
        wait_for(lambda: {self.state(job_id) for job_id in job_ids} == {state}, f"{job_ids} to be {state}")


def _surroundings() -> dict[str, str]:
    """The environment without what belongs to whoever runs the tests."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**mine, "PYTHONUNBUFFERED": "1"}
