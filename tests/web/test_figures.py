"""Workers, resources, dead letters and figures over HTTP: the same as the commands print."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx

from holdfast.domain.outcome import Failed
from tests.cli.program import holdfast
from tests.clock import Clock
from tests.console.conftest import Shop
from tests.web.conftest import Serve
from tests.web.waiting import eventually


def test_lists_are_those_of_the_commands(web: httpx.Client, shop: Shop, database: str) -> None:
    shop.submit("a", queue="mail", resource_keys=["smtp"])
    shop.running("r", singleton_key="one")
    shop.dead("d")
    for path, key, command in (
        ("/api/queues", "queues", ["queues", "list"]),
        ("/api/workers", "workers", ["workers"]),
        ("/api/resources", "resources", ["resources"]),
        ("/api/doctor", "findings", ["doctor", "--quiet"]),
    ):
        printed = [
            json.loads(line) for line in holdfast(*command, "--json", dsn=database).stdout.splitlines()
        ]
        shown = web.get(path).json()[key]
        if key == "findings":  # commands see their own connection besides
            printed = [each for each in printed if each["check"] in {found["check"] for found in shown}]
            shown = [each for each in shown if each["level"] != "OK"]
        assert shown == printed, path
        assert printed, path
    (line,) = holdfast("stats", "--json", dsn=database).stdout.splitlines()
    assert web.get("/api/stats").json().keys() == json.loads(line).keys()
    (line,) = holdfast("jobs", "show", "d", "--json", dsn=database).stdout.splitlines()
    assert json.loads(line).items() <= web.get("/api/jobs/d").json().items()


def test_a_capacity_is_changed_whatever_the_key(web: httpx.Client, shop: Shop) -> None:
    for key in ("smtp", "a/b", "ü %"):
        path = f"/api/resources/{quote(key, safe='')}"
        assert web.put(path, json={"capacity": 3}).json() == {"key": key, "capacity": 3}
        assert shop.store.resource_capacity(key) == 3
    assert web.put("/api/resources/smtp", json={"capacity": 0}).status_code == 422


def test_dead_letters_are_grouped_by_task_and_first_line(web: httpx.Client, shop: Shop) -> None:
    shop.dead("a", "b", "c", error="TimeoutError: no answer\nafter a while")
    shop.dead("d", error="TimeoutError: no answer\nat all", task="shop.call")
    shop.dead("e", error='ValueError: "quoted" \\ * text', task=None)
    groups = web.get("/api/dead").json()["groups"]
    assert [(each["task"], each["error"], each["count"]) for each in groups] == [
        ("shop.send", "TimeoutError: no answer", 3),
        (None, 'ValueError: "quoted" \\ * text', 1),
        ("shop.call", "TimeoutError: no answer", 1),
    ]
    assert groups[0]["sample_id"] == "c"
    assert len({each["fingerprint"] for each in groups}) == 3
    for each in groups:
        found = web.get("/api/jobs", params={"q": each["q"]}).json()["jobs"]
        assert len(found) == each["count"], each["q"]
    assert groups[0]["first_at"] <= groups[0]["last_at"]


def test_the_server_does_the_upkeep_and_shows_the_history(serve: Serve, shop: Shop, clock: Clock) -> None:
    for number in range(3):
        shop.ended(f"job-{number}")
    clock.advance(300)
    with httpx.Client(base_url=serve().address, timeout=20) as web:

        def counted() -> list[Any] | None:
            points: list[Any] = web.get("/api/history?minutes=10").json()["points"]
            return points if sum(point["completed"] for point in points) == 3 else None

        points = eventually(counted)
        assert len(points) == 10
        assert all(point["run_p95_ms"] is not None for point in points if point["completed"])
        for wrong in ("minutes=0", "minutes=10081", "queue="):
            assert web.get(f"/api/history?{wrong}").status_code == 422


def test_health_is_one_sentence(web: httpx.Client, shop: Shop) -> None:
    well = web.get("/api/health").json()
    assert well["ok"] is True
    assert well["sentence"].startswith("All is well: 0 queues")
    shop.ended("d", Failed("no", permanent=True))
    ill = web.get("/api/health").json()
    assert ill["sentence"] == "1 job died in the last 10 min."


def test_who_one_is(web: httpx.Client) -> None:
    me = web.get("/api/me").json()
    assert (me["role"], me["name"], me["schema"]) == ("admin", "local", "holdfast")
    assert web.post("/api/login", json={"token": "whatever"}).json() == me
