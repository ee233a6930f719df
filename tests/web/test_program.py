"""`holdfast web` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg.conninfo import make_conninfo

from tests.cli.program import holdfast
from tests.console.conftest import Shop
from tests.web.waiting import eventually


class Program:
    """The process, where it listens, and all it has said."""

    def __init__(self, process: subprocess.Popen[str], said: Path) -> None:
        self.process = process
        self._said = said
        self.address = eventually(self._address)

    def said(self) -> str:
        return self._said.read_text(encoding="utf-8")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)

    def _address(self) -> str | None:
        assert self.process.poll() is None, self.said()
        found = re.search(r"Holdfast is at (\S+)", self.said())
        return found[1] if found else None


@contextmanager
def program(dsn: str, directory: Path, *arguments: str, **environment: str) -> Generator[Program]:
    said = directory / "said"
    own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_WEB")}
    with said.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "web", "--port", "0", *arguments],
            stdout=file,
            stderr=file,
            text=True,
            env=own | {"HOLDFAST_DATABASE_URL": dsn} | environment,
        )
    try:
        yield Program(process, said)
    finally:
        process.kill()
        process.wait()


def test_it_serves_until_it_is_told_to_stop(database: str, tmp_path: Path) -> None:
    with program(database, tmp_path) as web:
        assert web.address.startswith("http://127.0.0.1:")
        assert httpx.get(f"{web.address}/readyz").json() == {"ok": True}
        assert "make ui" in httpx.get(web.address).text or "<script" in httpx.get(web.address).text
        assert web.stop() == 0


@pytest.mark.parametrize("arguments", [["--host", "0.0.0.0"], ["--host", "::"]])  # noqa: S104
def test_it_does_not_start_where_others_reach_it_without_a_word(arguments: Sequence[str]) -> None:
    refused = holdfast("web", *arguments, dsn="postgresql://nowhere.invalid/x")
    assert refused.code == 2
    assert "HOLDFAST_WEB_PASSWORD" in refused.stderr
    assert "--token-file" in refused.stderr


def test_it_starts_everywhere_with_a_password_or_a_file_of_tokens(database: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# people\nviewer:ada:ada-has-a-secret\n\noperator:bob:bob:has:another\n")
    everywhere = ["--host", "0.0.0.0", "--token-file", str(file)]  # noqa: S104
    with program(database, tmp_path, *everywhere, HOLDFAST_WEB_PASSWORD="the-admins-password") as web:
        address = web.address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert httpx.get(f"{address}/api/me").status_code == 401
        for name, secret, role in (
            ("ada", "ada-has-a-secret", "viewer"),
            ("bob", "bob:has:another", "operator"),
            ("admin", "the-admins-password", "admin"),
        ):
            assert httpx.get(f"{address}/api/me", auth=(name, secret)).json()["role"] == role


def test_it_starts_before_its_database_and_serves_as_soon_as_that_is_there(
    database: str, tmp_path: Path
) -> None:
    away = make_conninfo(database, dbname="not_there_yet")
    with program(away, tmp_path) as web:
        assert httpx.get(f"{web.address}/livez").status_code == 200
        answer = httpx.get(f"{web.address}/readyz")
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert int(answer.headers["retry-after"]) > 0
        assert httpx.get(f"{web.address}/api/jobs").status_code == 503


def test_an_installation_that_does_not_fit_is_not_ready(blank_database: str, tmp_path: Path) -> None:
    with program(blank_database, tmp_path) as web:
        answer = httpx.get(f"{web.address}/readyz", timeout=20)
        assert answer.status_code == 503
        assert "holdfast migrate up" in answer.json()["detail"]


SENTINEL = "s3ntinel-of-the-tests"


def test_no_secret_is_ever_shown(database: str, shop: Shop, tmp_path: Path) -> None:
    """Whatever is asked, and however it fails: no answer and no line of the log has a secret in it."""
    dsn = make_conninfo(database, password=f"{SENTINEL}-of-the-database")
    shop.submit("a", payload={"kwargs": {"password": f"{SENTINEL}-of-a-job"}})
    token = f"{SENTINEL}-of-a-token"
    shown: list[str] = []

    def ask(address: str, method: str, path: str, **more: Any) -> None:
        answer = httpx.request(method, f"{address}{path}", timeout=20, **more)
        shown.append(f"{answer.status_code} {answer.headers} {answer.text}")

    with program(dsn, tmp_path, HOLDFAST_WEB_TOKENS=f"admin:ada:{token}", HOLDFAST_LOG_LEVEL="debug") as web:
        admin = {"Authorization": f"Bearer {token}"}
        for path in (
            *("/", "/api/me", "/api/jobs", "/api/jobs/a", "/api/doctor", "/api/stats", "/api/health"),
            *("/metrics", "/readyz", "/openapi.json", "/api/queues", "/api/workers", "/api/dead", "/nothing"),
        ):
            ask(web.address, "GET", path, headers=admin)
            ask(web.address, "GET", path, headers={"Authorization": f"Bearer {token}x"})
        ask(web.address, "POST", "/api/login", json={"token": token})
        ask(web.address, "POST", "/api/login", json={"token": [f"{SENTINEL}-of-a-mistake"]})
        ask(web.address, "POST", "/api/jobs", json={"token": token}, headers=admin)
        ask(web.address, "POST", "/api/jobs", content=b"{" + token.encode(), headers=admin)
        assert web.stop() == 0
        shown.append(web.said())
    away = make_conninfo(dsn, dbname="not_there")
    with program(away, tmp_path, HOLDFAST_WEB_PASSWORD=token) as web:
        for path in ("/readyz", "/api/jobs", "/metrics"):
            ask(web.address, "GET", path, auth=("admin", token))
        shown.append(web.said())
    refused = holdfast("web", HOLDFAST_WEB_TOKENS=f"king:ada:{token}")
    shown += [refused.stdout, refused.stderr]
    assert len(shown) > 30
    assert [each for each in shown if SENTINEL in each] == []
