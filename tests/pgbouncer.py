"""A pgbouncer in front of the tests' server: what is a session to the client is many to the server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Literal

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.embedded.account import server_account

OLDEST = (1, 18)
KNOWS_PREPARED_STATEMENTS = (1, 21)
PORT = 6432  # part of the socket's name, no more
START_S = 30.0
POOL_SIZE = 10

PoolMode = Literal["transaction", "session"]


class PgBouncer:
    """A running pgbouncer for all databases of a server, on a Unix socket in a directory of its own."""

    def __init__(
        self, directory: Path, server_dsn: str, *, mode: PoolMode = "transaction", **settings: object
    ) -> None:
        self._program = find_pgbouncer()
        self._directory = directory
        self._log = directory / "pgbouncer.log"
        # pgbouncer refuses to be root, as PostgreSQL does; who runs that one can reach its socket too.
        self._account = server_account()
        self._socket = directory / "bouncer"
        self._socket.mkdir()
        if self._account.foreign:
            os.chown(self._socket, self._account.uid, self._account.gid)
        self._config = directory / "pgbouncer.ini"
        self._config.write_text(_config(server_dsn, self._socket, {"pool_mode": mode, **settings}))
        self._config.chmod(0o644)
        self.start()

    def dsn(self, database_dsn: str) -> str:
        """The address of a database of the server, through this pooler."""
        database = conninfo_to_dict(database_dsn)["dbname"]
        return make_conninfo("", host=str(self._socket), port=PORT, dbname=str(database), user="anybody")

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                user=self._account.user,
                group=self._account.group,
                extra_groups=self._account.extra_groups,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def command(self, text: str) -> list[tuple[Any, ...]]:
        """Ask its own console, as in `show pools`."""
        console = self.dsn("dbname=pgbouncer")
        with psycopg.connect(console, autocommit=True, cursor_factory=psycopg.ClientCursor) as conn:
            cursor = conn.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def _wait_until_it_answers(self) -> None:
        deadline = monotonic() + START_S
        while True:
            try:
                self.command("show version")
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or monotonic() > deadline:
                    said = self._log.read_text()
                    raise AssertionError(f"pgbouncer does not start: {error}\n{said}") from None
                sleep(0.01)
            else:
                return


def find_pgbouncer() -> str:
    """The program, or skip the test."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    program = shutil.which("pgbouncer", path=path)
    if program is None:
        pytest.skip(
            "pgbouncer is not installed: apt-get install pgbouncer (Debian), brew install pgbouncer (macOS)"
        )
    found = version_of(program)
    if found < OLDEST:
        pytest.skip(
            f"{program} is {found[0]}.{found[1]}, and the tests need {OLDEST[0]}.{OLDEST[1]} or newer"
        )
    return program


def version_of(program: str) -> tuple[int, int]:
    said = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    assert found, f"{program} --version says: {said}"
    return int(found[1]), int(found[2])


def _config(server_dsn: str, socket: Path, settings: dict[str, object]) -> str:
    server = conninfo_to_dict(server_dsn)
    target = " ".join(
        f"{key}='{server[key]}'" for key in ("host", "port", "user", "password") if server.get(key)
    )
    lines: dict[str, object] = {
        "unix_socket_dir": socket,
        "unix_socket_mode": "0777",
        "listen_port": PORT,
        "auth_type": "any",
        "max_client_conn": 500,
        "default_pool_size": POOL_SIZE,
        # Each test has a database of its own, and the sessions of the last one are not needed any more.
        "server_idle_timeout": 10,
        "log_connections": 0,
        "log_disconnections": 0,
        **settings,
    }
    if version_of(find_pgbouncer()) >= KNOWS_PREPARED_STATEMENTS:
        lines.setdefault("max_prepared_statements", 100)
    options = "\n".join(f"{key} = {value}" for key, value in lines.items())
    return f"[databases]\n* = {target}\n\n[pgbouncer]\n{options}\n"
