"""The test's end of the line to processes with a queue, see `actor`. Every wait has a deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any, cast

ROOT = Path(__file__).parents[3]
PATIENCE_S = 30.0

Message = dict[str, Any]
Delivered = dict[str, str]
"""Job ids and the leases they came with."""


class Refused(Exception):
    """What the process was asked to do was refused by the queue; `error` is the name of the exception."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(f"{error}: {message}")
        self.error = error


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """For what nobody sends a line about, such as a row of the database."""
    deadline = monotonic() + PATIENCE_S
    while not holds():
        assert monotonic() < deadline, f"still not: {what}"
        sleep(0.02)


class Actor:
    """A process with a queue of its own."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `bury`
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.queue.processes.actor"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self._said_before = 0
        self._numbers = count(1)
        self._heard: list[Message] = []
        self._news = threading.Condition()
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()
        self.stopped = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        """What it has written to stderr, its log, for this test."""
        # Without seeking: the process writes where this file stands.
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size - self._said_before, self._said_before).decode()

    # What it is asked

    def open(self, dsn: str, face: str, **options: Any) -> None:
        self._ask("open", dsn=dsn, face=face, options=options)

    def close(self) -> list[str]:
        """Close its queue; the threads that are left over."""
        return cast("list[str]", self._ask("close"))

    def enqueue(self, *job_ids: str, **options: Any) -> None:
        self._ask("enqueue", jobs=[{"id": job_id, **options} for job_id in job_ids])

    def do(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Call a verb of the queue."""
        return self._ask("verb", name=verb, args=args, kwargs=kwargs)

    def stream(self, *args: Any, read: bool = True, name: str = "stream", **kwargs: Any) -> None:
        self._ask("stream", name=name, args=args, kwargs=kwargs)
        if read:
            self.read(name)

    def read(self, name: str = "stream") -> None:
        self._ask("read", name=name)

    def end_stream(self, name: str = "stream") -> None:
        self._ask("end", name=name)

    # What is heard of it

    def batch(self) -> Delivered:
        """The next batch of jobs it was given."""
        return dict(self.wait(event="batch")["jobs"])

    def given(self, job_ids: Iterable[str]) -> Delivered:
        """Wait until it was given these jobs, and no others, in as many batches as it takes."""
        wanted, got = set(job_ids), Delivered()
        while wanted - set(got):
            got |= self.batch()
        assert set(got) == wanted
        return got

    def wait(self, patience_s: float = PATIENCE_S, **wanted: Any) -> Message:
        """The next message like this, taken out of the others."""
        deadline = monotonic() + patience_s
        with self._news:
            while True:
                for message in self._heard:
                    if wanted.items() <= message.items():
                        self._heard.remove(message)
                        return message
                gone = not self._ear.is_alive()
                if gone or not self._news.wait(max(0.0, deadline - monotonic())):
                    why = "it ended" if gone else f"{patience_s:.0f} s passed"
                    raise AssertionError(f"no {wanted}: {why}; {self._heard=}; its log:\n{self.said}")

    def heard_any(self, **like: Any) -> bool:
        """Whether a message like this is there now."""
        with self._news:
            return any(like.items() <= message.items() for message in self._heard)

    def _ask(self, do: str, **details: Any) -> Any:
        number = next(self._numbers)
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"n": number, "do": do, **details}) + "\n")
        stdin.flush()
        reply = self.wait(n=number)
        if "error" in reply:
            raise Refused(reply["error"], reply["message"])
        return reply["answer"]

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        for line in stdout:
            with self._news:
                self._heard.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    # What is done to it

    def stop(self) -> None:
        """Let it stand still, all its threads at once."""
        self.stopped = True
        os.kill(self.pid, signal.SIGSTOP)

    def carry_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.stopped = False

    def kill(self) -> None:
        """Kill it, if it still runs, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._dismiss()

    def terminate(self) -> int:
        """Ask it to end, wait until it has, and return its exit code."""
        self._process.terminate()
        code = self._process.wait(PATIENCE_S)
        self._dismiss()
        return code

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def _dismiss(self) -> None:
        self._ear.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def forget(self) -> None:
        """Everything it said before is of no interest any more."""
        self._said_before = os.fstat(self._stderr.fileno()).st_size
        with self._news:
            self._heard.clear()

    def bury(self) -> None:
        """Whatever state it is in: leave nothing of it."""
        if self.runs:
            self.kill()
        self._stderr.close()


class Crew:
    """Processes for one test after the other: those that are in order afterwards are used again."""

    def __init__(self) -> None:
        self._idle: list[Actor] = []
        self._busy: list[Actor] = []

    def hire(self, dsn: str, face: str, **options: Any) -> Actor:
        """A process with an open queue."""
        actor = self._idle.pop() if self._idle else Actor()
        self._busy.append(actor)
        actor.open(dsn, face, **options)
        return actor

    def dismiss(self) -> None:
        """End what the test began; complain about threads that outlived their queue, but leave nothing."""
        complaints: list[object] = []
        while self._busy:
            actor = self._busy.pop()
            if not actor.runs or actor.stopped:
                actor.bury()
                continue
            try:
                left_over = actor.close()
            except (AssertionError, OSError, Refused) as error:
                complaints.append(error)
                actor.bury()
                continue
            if left_over:
                complaints.append(f"threads that outlived their queue: {left_over}")
                actor.bury()
            else:
                actor.forget()
                self._idle.append(actor)
        assert not complaints, complaints

    def close(self) -> None:
        for actor in [*self._busy, *self._idle]:
            actor.bury()
