"""Measure one contender: enqueue in bulk and one by one, drain with one and two processes, idle latency."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.peers import servers
from bench.peers.environments import CACHE, Environment, Say
from bench.peers.peer import Peer
from bench.peers.results import Figures
from bench.peers.seen import Seen
from bench.peers.verify import judge

LATENCY_JOBS = 200
LATENCY_WARM_UP = 20
STALL_S = 60.0
"""A contender that makes no progress for so long has failed."""
LOOK_S = 0.002
STOP_S = 15.0


class Failed(Exception):
    """A contender did not do what was asked; the text says what."""


@dataclass(slots=True)
class Bench:
    """One contender, installed, on its own empty database or Redis."""

    peer: Peer
    place: Environment
    dsn: str
    redis_url: str
    conn: psycopg.Connection[Any] | None
    say: Say
    enqueued: int = 0

    def run(self, jobs: int) -> Figures:
        """All measurements, one after the other. Every job that was enqueued is drained and looked for."""
        self._ask("setup")
        first, bulk_1 = self._enqueue("bulk", jobs)
        drain_1 = self._drain(first, jobs, processes=1)
        second, bulk_2 = self._enqueue("bulk", jobs)
        drain_2 = self._drain(second, jobs, processes=2)
        third, single = self._enqueue("single", self.peer.singles)
        self._drain(third, self.peer.singles, processes=1)
        latency_ms = self._latencies()
        return Figures(
            bulk_per_s=2 * jobs / (bulk_1 + bulk_2),
            single_per_s=self.peer.singles / single,
            drain_1_per_s=drain_1,
            drain_2_per_s=drain_2,
            latency_p50_ms=percentile(latency_ms, 50),
            latency_p99_ms=percentile(latency_ms, 99),
            jobs=jobs,
        )

    def _enqueue(self, verb: str, jobs: int) -> tuple[range, float]:
        """The numbers that were enqueued, and the seconds it took."""
        numbers = range(self.enqueued, self.enqueued + jobs)
        self.enqueued += jobs
        self._settle_down()
        answer = self._ask(verb, str(numbers.start), str(jobs))
        self.say(f"{self.peer.title}: {verb} {jobs / answer['seconds']:,.0f}/s")
        return numbers, float(answer["seconds"])

    def _drain(self, numbers: range, jobs: int, *, processes: int) -> float:
        """Jobs per second, by their committed completions, once every process has begun.

        Starting programs is not what is measured, so the clock starts when each process has run a job;
        what is not finished then is what counts.
        """
        self._settle_down()
        seen = Seen(CACHE / "seen" / self.peer.key)
        if (waiting := self._unfinished(seen, jobs)) != jobs:
            raise Failed(f"{jobs} jobs were enqueued, and {waiting} are counted as unfinished")
        with self._workers(seen, processes):
            _wait(
                lambda: seen.processes() >= min(processes, jobs), seen.count, "no job begun by each process"
            )
            began_s = time.perf_counter()
            counted = self._unfinished(seen, jobs)
            _wait(lambda: seen.count() >= jobs, seen.count, f"of {jobs} jobs some never began")
            _wait(lambda: self._unfinished(seen, jobs) == 0, seen.count, "completions are not committed")
            seconds = time.perf_counter() - began_s
        verdict = judge(numbers, seen.numbers())
        rate = counted / seconds
        self.say(f"{self.peer.title}: drain, {processes} process(es), {rate:,.0f}/s, {verdict}")
        if not verdict.exactly_once:
            raise Failed(f"drain with {processes} process(es): {verdict}")
        return rate

    def _unfinished(self, seen: Seen, jobs: int) -> int:
        if self.peer.unfinished is None or self.conn is None:
            return jobs - seen.count()
        row = self.conn.execute(self.peer.unfinished.encode()).fetchone()
        return int(row[0]) if row else 0

    def _latencies(self) -> list[float]:
        """Milliseconds from the call that enqueues to the handler's first line, with nothing else to do."""
        seen = Seen(CACHE / "seen" / self.peer.key, stamped=True)
        with self._workers(seen, 1, stamped=True):
            self._trickle(seen, LATENCY_WARM_UP)
            sent = self._trickle(seen, LATENCY_JOBS)
        began = seen.stamps()
        return [(began[number] - stamp) / 1e6 for number, stamp in sent.items()]

    def _trickle(self, seen: Seen, jobs: int) -> dict[int, int]:
        """Enqueue jobs with pauses and await their handlers; when each call was made, by number."""
        numbers = range(self.enqueued, self.enqueued + jobs)
        self.enqueued += jobs
        expected = seen.count() + jobs
        stamps = self._ask("spaced", str(numbers.start), str(jobs))["stamps"]
        _wait(lambda: seen.count() >= expected, seen.count, "idle worker: some jobs never began")
        return dict(zip(numbers, stamps, strict=True))

    def _settle_down(self) -> None:
        if self.conn is not None:
            servers.settle_down(self.conn)

    @contextmanager
    def _workers(self, seen: Seen, processes: int, *, stamped: bool = False) -> Generator[None]:
        commands = 1 if self.peer.supervises else processes
        arguments = self.place.command(self.peer, "work", str(processes))
        with (CACHE / "logs" / f"{self.peer.key}.log").open("ab") as log:
            started = [
                subprocess.Popen(
                    arguments,
                    env=self._variables(seen, stamped=stamped),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                for _ in range(commands)
            ]
        try:
            yield
        finally:
            _stop(started)

    def _ask(self, *arguments: str) -> dict[str, Any]:
        """Let the adapter do one thing, and read its answer: the last line."""
        done = subprocess.run(
            self.place.command(self.peer, *arguments),
            env=self._variables(),
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode:
            self.say(done.stderr)
            raise Failed(f"{' '.join(arguments)}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        if arguments[0] == "setup":
            return {}
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer

    def _variables(self, seen: Seen | None = None, *, stamped: bool = False) -> dict[str, str]:
        return {
            **os.environ,
            "PEERS_HOME": str(self.place.home),
            "PEERS_DSN": self.dsn,
            "PEERS_REDIS_URL": self.redis_url,
            "PEERS_SETTINGS": json.dumps(self.peer.chosen()),
            "PEERS_SEEN": str(seen.directory) if seen else "",
            "PEERS_STAMPED": "1" if stamped else "0",
        }


def percentile(values: list[float], percent: int) -> float:
    """By linear interpolation between the nearest ranks."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _wait(done: Callable[[], bool], progress: Callable[[], int], otherwise: str) -> None:
    """Look often; give up when nothing has moved for a minute."""
    last, moved_s = -1, time.monotonic()
    while not done():
        count = progress()
        if count != last:
            last, moved_s = count, time.monotonic()
        if time.monotonic() - moved_s > STALL_S:
            raise Failed(f"{otherwise} ({last} begun)")
        time.sleep(LOOK_S)


def _stop(started: list[subprocess.Popen[bytes]]) -> None:
    """End the workers and whatever they started: each command leads a session of its own."""
    for process in started:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    for process in started:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def logs() -> Path:
    """Where workers write what they have to say."""
    directory = CACHE / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
