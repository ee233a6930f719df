"""The servers everybody is measured on: one PostgreSQL with durability on, and a Redis for context."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.peers.environments import CACHE, HERE, Say
from holdfast import embedded

# Room for the pools of two processes of any contender, and for all that hundreds of thousands of jobs touch,
# as on a server that somebody set up: 128 MB are for small machines. All else is as Holdfast's users have it.
SETTINGS = {"max_connections": "200", "shared_buffers": "1GB"}


@contextmanager
def postgresql(dsn: str | None, say: Say) -> Generator[str]:
    """The address of the server: the one named, else an embedded one under the cache directory."""
    if dsn:
        yield dsn
        return
    with embedded.start(CACHE / "postgresql", log=say, settings=SETTINGS) as server:
        _write_much(server.dsn)
        yield server.dsn


def _write_much(dsn: str) -> None:
    """Let a new server have the files of its log, which it would make at the first contender's cost."""
    with connect(dsn) as conn:
        for _ in range(2):
            conn.execute("create table ballast as select md5(n::text) from generate_series(1, 4000000) as n")
            conn.execute("drop table ballast")
            conn.execute("checkpoint")


@contextmanager
def fresh_database(server: str, peer: str) -> Generator[str]:
    """An empty database for one contender, dropped at the end."""
    name = f"peers_{peer.replace('-', '_')}_{os.getpid()}"
    with connect(server) as conn:
        conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
        conn.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        try:
            yield _at(server, name)
        finally:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def connect(dsn: str) -> psycopg.Connection[Any]:
    """A connection of the harness, committing by itself."""
    return psycopg.connect(dsn, autocommit=True)


def settle_down(conn: psycopg.Connection[Any]) -> None:
    """Let the server begin a measurement without the work of the last one, and with statistics."""
    conn.execute("vacuum (analyze)")
    conn.execute("checkpoint")


def facts(conn: psycopg.Connection[Any]) -> tuple[str, bool]:
    """The server's version, and whether a commit is on the disk when it is answered."""
    row = conn.execute(
        "select current_setting('server_version'), "
        "current_setting('fsync')::boolean and current_setting('synchronous_commit') <> 'off'"
    ).fetchone()
    version, durable = row or ("unknown", False)
    return version.split()[0], durable


def _at(server: str, database: str) -> str:
    """The server's address with another database, as a URL: not every client reads libpq's key words."""
    parts = conninfo_to_dict(make_conninfo(server, dbname=database))
    user = str(parts.pop("user", "postgres"))
    password = f":{parts.pop('password')}" if "password" in parts else ""
    host, port = str(parts.pop("host", "localhost")), str(parts.pop("port", "5432"))
    if host.startswith("/"):
        return f"postgresql://{user}{password}@/{database}?host={host}&port={port}"
    return f"postgresql://{user}{password}@{host}:{port}/{database}"


@contextmanager
def redis(say: Say) -> Generator[str | None]:
    """The address of a Redis of our own on loopback that writes no files; None if there is none."""
    if not shutil.which("redis-server"):
        subprocess.run(["sh", HERE / "install_redis.sh"], check=False)
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    port = _free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    log = _log("redis")
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent)
    try:
        _wait_for(port, server, log)
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def empty_redis(url: str) -> None:
    """Forget everything in it; it is ours."""
    host, _, port = url.removeprefix("redis://").partition(":")
    with socket.create_connection((host, int(port))) as conn:
        conn.sendall(b"FLUSHALL\r\n")
        conn.recv(64)


def _log(name: str) -> Path:
    directory = CACHE / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{name}.log"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 10
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"redis-server did not start: {log.read_text()[-500:]}")
