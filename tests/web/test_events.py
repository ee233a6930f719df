"""Live events."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import httpx
import pytest

from holdfast.web import ticker
from tests.console.conftest import Shop
from tests.web.conftest import Serve
from tests.web.serving import Running
from tests.web.waiting import eventually

PATH = "/api/events"


@contextmanager
def watching(running: Running) -> Generator[tuple[httpx.Client, httpx.Response]]:
    with httpx.Client(base_url=running.address, timeout=20) as web, web.stream("GET", PATH) as answer:
        yield web, answer


def events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, line.removeprefix("data: ")


def test_watchers_see_changes_as_they_come(serve: Serve, shop: Shop) -> None:
    running = serve()
    with (
        httpx.Client(base_url=running.address, timeout=20) as web,
        web.stream("GET", "/api/events") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        seen = events(answer.iter_lines())
        name, data = next(seen)
        assert (name, json.loads(data)["queues"]) == ("tick", [])
        shop.submit("a", queue="mail")
        name, data = next(seen)
        assert name == "tick"
        assert [(each["queue"], each["due"]) for each in json.loads(data)["queues"]] == [("mail", 1)]
        assert next(seen)[0] == "jobs"


def test_nobody_looks_when_nobody_watches(serve: Serve) -> None:
    running = serve()
    with httpx.Client(base_url=running.address, timeout=20) as web:
        with web.stream("GET", "/api/events") as answer:
            seen = events(answer.iter_lines())
            next(seen)
            assert running.app.state.backend.ticker.watchers == 1
        eventually(lambda: running.app.state.backend.ticker.watchers == 0)
        eventually(lambda: running.app.state.backend.ticker.is_idle)


def test_what_is_silent_says_that_it_is_there(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "SILENCE_S", 0.1)
    with (
        httpx.Client(base_url=serve().address, timeout=20) as web,
        web.stream("GET", "/api/events") as answer,
    ):
        assert any(line == ": still here" for line in answer.iter_lines())


def test_more_watchers_than_there_is_room_for_are_told_so(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker, "MOST_WATCHERS", 1)
    with (
        httpx.Client(base_url=serve().address, timeout=20) as web,
        web.stream("GET", "/api/events") as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        assert web.get("/api/events").status_code == 429


def test_a_server_that_stops_does_not_wait_for_watchers(serve: Serve) -> None:
    running = serve()
    with (
        httpx.Client(base_url=running.address, timeout=20) as web,
        web.stream("GET", "/api/events") as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        began = time.monotonic()
        running.stop()
        assert time.monotonic() - began < 4
        list(lines)  # ends, and not by a broken connection
