"""The processes of a run: started, killed, and started again by whoever looks after them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, sleep, time
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
RUN_VARIABLE: Final = "GAUNTLET_RUN"
TEND_S: Final = 0.05
STOP_S: Final = 25.0
OWN_PORTS: Final = range(20_000, 32_000)


@dataclass(slots=True, eq=False)
class Member:
    """A place in the fleet, and the process that has it now."""

    name: str
    role: str
    command: list[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = True
    """Whether another process takes the place when this one has ended."""
    starts: int = 0
    resting_until: float = 0.0
    kills: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """When which process of this place was killed."""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            if number is signal.SIGKILL and self.is_alive:
                self.kills.append((time(), self.pid))
            self.process.send_signal(number)

    def children(self) -> list[int]:
        """The processes it runs handlers in."""
        found: list[int] = []
        with suppress(OSError):
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                found += [int(each) for each in (task / "children").read_text().split()]
        return found

    def end(self, within_s: float = STOP_S) -> int:
        """Ask it to stop, and make it; answers its exit code."""
        self.wanted = False
        if self.process is None:
            return 0
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            return self.process.wait()


@dataclass(slots=True)
class Fleet:
    """Everybody."""

    directory: Path
    environment: dict[str, str]
    members: list[Member] = field(default_factory=list[Member])
    temporary: list[Member] = field(default_factory=list[Member])
    """Started by a fault, for a while."""
    tells: Callable[[str], None] = print
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def add(
        self,
        name: str,
        role: str,
        command: list[str],
        dsn: str,
        *,
        prefix: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        is_temporary: bool = False,
    ) -> Member:
        """Start a process that reaches the database by this address."""
        member = Member(
            name,
            role,
            [*prefix, *command],
            {**self.environment, "HOLDFAST_DATABASE_URL": dsn, **(environment or {})},
            self.directory / f"{name}.log",
            wanted=not is_temporary,
        )
        member.start()
        (self.temporary if is_temporary else self.members).append(member)
        return member

    def tend(self) -> None:
        """From here on, places are filled again."""
        self._thread = threading.Thread(target=self._tend, daemon=True)
        self._thread.start()

    def of(self, *roles: str) -> list[Member]:
        return [member for member in self.members if member.role in roles]

    def pick(self, rng: Random, *roles: str) -> Member:
        """Somebody who lives, if anybody does."""
        deadline = monotonic() + 5
        while not (alive := [member for member in self.of(*roles) if member.is_alive]):
            if monotonic() > deadline:
                return rng.choice(self.of(*roles))
            sleep(TEND_S)
        return rng.choice(alive)

    def end(self, *roles: str) -> list[tuple[str, int]]:
        """Stop these roles in order, or all; answers exit codes."""
        leaving = [member for member in self.members + self.temporary if not roles or member.role in roles]
        for member in leaving:
            member.wanted = False
            if member.is_alive:
                member.signal(signal.SIGCONT)
                member.signal(signal.SIGTERM)
        return [(member.name, member.end()) for member in leaving]

    def last_words(self, name: str, lines: int = 5) -> str:
        """What somebody wrote last."""
        said = next(member.log for member in self.members if member.name == name).read_text(errors="replace")
        return " | ".join(line[:3000] for line in said.splitlines()[-lines:])

    def close(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        for member in self.members + self.temporary:
            if member.is_alive:
                member.signal(signal.SIGKILL)
                member.signal(signal.SIGCONT)
                assert member.process is not None
                member.process.wait()

    def _tend(self) -> None:
        while not self._over.wait(TEND_S):
            for member in self.members:
                if member.wanted and not member.is_alive and monotonic() >= member.resting_until:
                    member.resting_until = monotonic() + 0.3
                    member.start()


def worker_command(queues: Mapping[str, int], **settings: float) -> list[str]:
    """A worker as the product ships it."""
    options = [f"--queue={name}={size}" for name, size in queues.items()]
    options += [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    return [
        sys.executable,
        "-m",
        "holdfast",
        "worker",
        "gauntlet.load.app:hf",
        *options,
        "--log-level=warning",
    ]


def web_command(port: int) -> list[str]:
    """A web server as the product ships it."""
    return [sys.executable, "-m", "holdfast", "web", f"--port={port}"]


def free_port() -> int:
    """A port for somebody who dies and comes back to it.

    Not one of those that the kernel gives to whoever connects: a client that tries and tries may be given the
    very port that it calls, reach itself, and keep the port.
    """
    while True:
        port = secrets.choice(OWN_PORTS)
        with suppress(OSError), socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            return port


def load_command(module: str, name: str, **settings: Any) -> list[str]:
    return [sys.executable, "-m", f"gauntlet.load.{module}", name, json.dumps(settings)]


def survivors(run: str) -> list[tuple[int, str]]:
    """Processes of this run that are still there: by the variable that all of them inherit."""
    found: list[tuple[int, str]] = []
    mark = f"{RUN_VARIABLE}={run}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0") and int(entry.name) != os.getpid():
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if words:  # a zombie that nobody has waited for yet has none
                    found.append((int(entry.name), words.strip()))
    return found


def has(*programs: str) -> str | None:
    """The first of these programs that is missing, in words; None if all are there."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    for program in programs:
        if shutil.which(program, path=path) is None:
            return f"{program} is not installed"
    return None
