"""Ways to the server: through our proxy, through pgbouncer, and out of a network namespace of our own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final

from psycopg.conninfo import make_conninfo

from gauntlet.arena.fleet import ROOT, free_port, has
from holdfast.embedded.account import server_account

PLAIN: Final = {"sslmode": "disable", "gssencmode": "disable", "user": "holdfast"}
ANSWER_S: Final = 10.0


class Way:
    """A process on the way to the server, which faults kill and start again."""

    process: subprocess.Popen[bytes]

    def __init__(self) -> None:
        self._starting = Lock()
        self._start()

    def start(self) -> None:
        """Be there again; of two faults that killed it, one starts it."""
        with self._starting:
            if self.process.poll() is not None:
                self._start()

    def _start(self) -> None:
        raise NotImplementedError


class Link(Way):
    """A proxy in a process of its own, so that it can be killed, and live in a namespace."""

    def __init__(
        self,
        name: str,
        directory: Path,
        target: Path,
        environment: dict[str, str],
        *,
        host: str = "127.0.0.1",
        prefix: tuple[str, ...] = (),
    ) -> None:
        self._control = directory / f"{name}.control"
        self._log = directory / f"{name}.log"
        self._host, self._port = host, free_port()
        self._command = [
            *prefix,
            sys.executable,
            "-m",
            "gauntlet.arena.proxy",
            str(target),
            host,
            str(self._port),
            str(self._control),
        ]
        self._environment = environment
        super().__init__()

    def _start(self) -> None:
        self._control.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _wait_for(lambda: self._control.exists(), self._log)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def dsn(self, database: str) -> str:
        return make_conninfo(
            "", host=self._host, port=self._port, dbname=database, connect_timeout=5, **PLAIN
        )

    def order(self, **order: Any) -> dict[str, int]:
        """Have it do something; answers its counts. A proxy that is down just now does nothing."""
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_S)
            line.connect(str(self._control))
            line.sendall(json.dumps(order).encode() + b"\n")
            answer: dict[str, int] = json.loads(line.makefile().readline())
            return answer
        return {}


class Pooler(Way):
    """A pgbouncer in transaction mode."""

    def __init__(self, directory: Path, server: Path, environment: dict[str, str]) -> None:
        self._directory = directory / "pooler"
        self._directory.mkdir()
        self._account = server_account()
        if self._account.foreign:
            os.chown(self._directory, self._account.uid, self._account.gid)
        self._config = self._directory / "pgbouncer.ini"
        self._config.write_text(
            f"[databases]\n* = host='{server.parent}' port='{server.suffix[1:]}' user='holdfast'\n\n"
            f"[pgbouncer]\nunix_socket_dir = {self._directory}\nunix_socket_mode = 0777\nlisten_port = 6432\n"
            "auth_type = any\npool_mode = transaction\nmax_client_conn = 300\ndefault_pool_size = 10\n"
            "log_connections = 0\nlog_disconnections = 0\nserver_login_retry = 1\n"
        )
        self._config.chmod(0o644)
        self._environment = environment
        super().__init__()

    @staticmethod
    def missing() -> str | None:
        return has("pgbouncer")

    def _start(self) -> None:
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
        with (self._directory / "out.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["pgbouncer", str(self._config)],
                cwd=self._directory,
                env={**self._environment, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._account.user,
                group=self._account.group,
                extra_groups=self._account.extra_groups,
            )
        _wait_for(lambda: (self._directory / ".s.PGSQL.6432").exists(), self._directory / "out.log")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        (self._directory / ".s.PGSQL.6432").unlink(missing_ok=True)

    def freeze(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def dsn(self, database: str) -> str:
        return make_conninfo("", host=str(self._directory), port=6432, dbname=database, user="anybody")


class Namespaces:
    """Two network namespaces with a wire between them; nothing is added to the one everybody is in."""

    def __init__(self) -> None:
        self._tag = f"{os.getpid() % 100000}"
        self.near, self.far = f"hfa{self._tag}", f"hfb{self._tag}"
        net = int(self._tag) % 200
        self.host = f"10.99.{net}.1"
        wire = (f"va{self._tag}", f"vb{self._tag}")
        self._ip("netns", "add", self.near)
        self._ip("netns", "add", self.far)
        self._ip(
            "link",
            "add",
            wire[0],
            "netns",
            self.near,
            "type",
            "veth",
            "peer",
            "name",
            wire[1],
            "netns",
            self.far,
        )
        for space, end, host in (
            (self.near, wire[0], f"{self.host}/30"),
            (self.far, wire[1], f"10.99.{net}.2/30"),
        ):
            self._ip("-n", space, "addr", "add", host, "dev", end)
            self._ip("-n", space, "link", "set", end, "up")
            self._ip("-n", space, "link", "set", "lo", "up")
        self._end = wire[0]

    @staticmethod
    def missing() -> str | None:
        if os.geteuid() != 0:
            return "only root may make network namespaces"
        if why := has("ip"):
            return why
        tried = subprocess.run(
            ["ip", "netns", "add", f"hft{os.getpid()}"], capture_output=True, text=True, check=False
        )
        if tried.returncode != 0:
            return f"no network namespace can be made here: {tried.stderr.strip()}"
        subprocess.run(["ip", "netns", "del", f"hft{os.getpid()}"], check=False, capture_output=True)
        return None

    def inside(self, space: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", space)

    def cut(self) -> None:
        """No FIN, no RST: packets are gone, in both directions."""
        self._ip("-n", self.near, "link", "set", self._end, "down")

    def mend(self) -> None:
        self._ip("-n", self.near, "link", "set", self._end, "up")

    def close(self) -> None:
        for space in (self.near, self.far):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)


def _wait_for(condition: Any, log: Path) -> None:
    deadline = monotonic() + 30
    while not condition():
        if monotonic() > deadline:
            raise TimeoutError(f"it does not start: {log.read_text()[-500:]}")
        sleep(0.01)
