"""What may be sent: JSON, plain, not too large, not too slowly."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from holdfast.web import bodies
from holdfast.web.bodies import MOST_BYTES
from tests.console.conftest import Shop
from tests.web.conftest import Serve

JSON = {"Content-Type": "application/json"}


def test_only_json_is_taken(web: httpx.Client, shop: Shop) -> None:
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "json",
    ):
        answer = web.post("/api/jobs", content=b"{}", headers={"Content-Type": kind} if kind else {})
        assert answer.status_code == 415, kind
        assert answer.json()["title"] == "Not JSON"
    for fine in ("application/json", "Application/JSON; charset=utf-8"):
        assert web.post("/api/jobs", content=b"{}", headers={"Content-Type": fine}).status_code == 201
    assert shop.store.get_job_stats().total_jobs == 2


def test_nothing_compressed_is_taken(web: httpx.Client) -> None:
    for coding in ("gzip", "br", "GZIP, identity"):
        answer = web.post(
            "/api/jobs", content=gzip.compress(b"{}"), headers={**JSON, "Content-Encoding": coding}
        )
        assert answer.status_code == 415
        assert answer.json()["title"] == "Compressed body"


def test_a_body_one_byte_too_large_is_refused_however_it_is_sent(web: httpx.Client, shop: Shop) -> None:
    def filled(size: int) -> bytes:
        return b'{"task": "t"' + b" " * (size - 13) + b"}"

    def in_chunks(size: int) -> Iterator[bytes]:
        whole = filled(size)
        yield from (whole[start : start + 65536] for start in range(0, len(whole), 65536))

    assert web.post("/api/jobs", content=filled(MOST_BYTES), headers=JSON).status_code == 201
    assert web.post("/api/jobs", content=in_chunks(MOST_BYTES), headers=JSON).status_code == 201
    for body in (filled(MOST_BYTES + 1), in_chunks(MOST_BYTES + 1)):
        answer = web.post("/api/jobs", content=body, headers=JSON)
        assert answer.status_code == 413
        assert answer.json()["most_bytes"] == MOST_BYTES
    assert shop.store.get_job_stats().total_jobs == 2


def test_an_endless_body_is_refused_before_it_ends(serve: Serve) -> None:
    host, port = serve().address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(
            b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        sent = 0
        try:
            while sent < 4 * MOST_BYTES:
                line.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass  # closed by the server, which is what we want
        answer = line.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_body_that_comes_too_slowly_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READ_WITHIN_S", 0.2)
    host, port = serve().address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(
            b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        assert line.recv(65536).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"payload": NaN}',
        b'{"payload": 1e999}',
        b'{"payload": ' + b"9" * 5000 + b"}",
        b'{"payload": "\\ud800"}',
        b'{"task": "\\ud800"}',
        b'{"payload": "\\u0000"}',
        json.dumps({"payload": "x" * 1_100_000}).encode(),
        b"null",
        b'"text"',
    ],
    ids=lambda body: str(body[:12]),
)
def test_what_cannot_be_read_or_stored_is_a_problem(web: httpx.Client, body: bytes) -> None:
    answer = web.post("/api/jobs", content=body, headers=JSON)
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_path_that_is_no_text_is_a_problem(web: httpx.Client) -> None:
    host, port = str(web.base_url).removeprefix("http://").rstrip("/").split(":")
    for path in (b"/api/jobs/%ff", b"/api/jobs/%C3", b"/api/queues/%80/pause"):
        with socket.create_connection((host, int(port)), timeout=20) as line:
            line.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert line.recv(65536).startswith(b"HTTP/1.1 400"), path
