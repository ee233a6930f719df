"""Queues over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from holdfast.web import backend
from tests.console.conftest import Shop


def test_a_queue_is_paused_and_resumed_whatever_its_name(web: httpx.Client, shop: Shop) -> None:
    for number, name in enumerate(["mail", "a/b %2F?#ü", "=x"]):
        shop.submit(f"job-{number}", queue=name)
        path = f"/api/queues/{quote(name, safe='')}"
        assert web.post(f"{path}/pause").json() == {"queue": name, "paused": True, "changed": True}
        assert web.post(f"{path}/pause").json()["changed"] is False
        paused = {each["queue"] for each in web.get("/api/queues").json()["queues"] if each["paused_at"]}
        assert paused == {name}
        assert web.post(f"{path}/resume").json()["changed"] is True


def test_a_queue_is_limited_and_the_limit_taken_away(web: httpx.Client, shop: Shop) -> None:
    assert web.put("/api/queues/a%2Fb/limit", json={"limit": 3}).json() == {"queue": "a/b", "limit": 3}
    assert [each["max_running"] for each in web.get("/api/queues").json()["queues"]] == [3]
    assert web.put("/api/queues/a%2Fb/limit", json={"limit": None}).json() == {"queue": "a/b", "limit": None}
    for wrong in ({}, {"limit": 0}, {"limit": "3"}, {"limit": 2**40}):
        assert web.put("/api/queues/x/limit", json=wrong).status_code == 422


def test_probes_answer(web: httpx.Client) -> None:
    assert web.get("/livez").json() == {"ok": True}
    assert web.get("/readyz").json() == {"ok": True}


def test_a_check_that_takes_too_long_is_an_answer(web: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "CHECK_S", 0.0)
    answer = web.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["title"] == "No answer from the database"


def test_an_unknown_address_is_a_problem(web: httpx.Client) -> None:
    answer = web.get("/api/nothing")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"] == "Not Found"
