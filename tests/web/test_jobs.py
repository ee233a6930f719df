"""Jobs over HTTP."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest

from holdfast.domain.outcome import Completed
from tests.console.conftest import Shop
from tests.web.conftest import ADMIN, TOKENS, VIEWER, Serve

ODD = [
    "order 1",
    "a/b",
    "a%2Fb",
    "100%",
    "ü-λ-🦀",
    "?q=1#x",
    ".",
    "..",
    "=.",
    "a\\b",
    "/",
    "j1x",
    "batch",
    "+",
]


def at(job_id: str) -> str:
    """Where a job is."""
    name = f"={job_id}" if job_id in (".", "..") else quote(job_id, safe="")
    return f"/api/jobs/{name}"


def test_a_job_is_submitted_and_read_back(web: httpx.Client, shop: Shop) -> None:
    asked: dict[str, Any] = {
        "job_id": "mail-1",
        "queue": "mail",
        "task": "shop.send",
        "args": {"to": "ada"},
        "priority": 3,
        "tags": ["eu"],
        "delay_s": 60,
        "max_attempts": 5,
        "resource_keys": ["smtp"],
        "singleton_key": "ada",
        "timeout_s": 1.5,
        "expires_at": "2099-01-31T09:30:00Z",
    }
    answer = web.post("/api/jobs", json=asked)
    assert (answer.status_code, answer.json()) == (201, {"id": "mail-1"})
    job = web.get("/api/jobs/mail-1").json()
    assert job["payload"] == {"args": [], "kwargs": {"to": "ada"}}
    assert (job["next_need"], job["state"], job["status"]) == ("mail", "INITIAL_PENDING", "AWAITING_FUTURE")
    for name in ("task", "priority", "tags", "max_attempts", "resource_keys", "singleton_key", "timeout_s"):
        assert job[name] == asked[name]
    assert job["expires_at"] == "2099-01-31T09:30:00+00:00"


def test_a_payload_travels_with_every_digit(web: httpx.Client, shop: Shop) -> None:
    payload = '{"big": 123456789012345678901234567890, "small": -9007199254740993, "text": "\\u00fc"}'
    web.post(
        "/api/jobs",
        content=f'{{"job_id": "big", "payload": {payload}}}',
        headers={"Content-Type": "application/json"},
    )
    answer = web.get("/api/jobs/big")
    assert "123456789012345678901234567890" in answer.text
    assert answer.json()["payload"] == json.loads(payload)


def test_a_number_too_long_for_python_is_shown_with_every_digit(
    web: httpx.Client, conn: psycopg.Connection[Any]
) -> None:
    digits = "7" * 5000
    conn.execute(f"select holdfast.submit_job('long', 'w', 'q', p_payload => '{{\"n\": {digits}}}')")
    assert digits in web.get("/api/jobs/long").text
    assert digits in web.get("/api/jobs?q=id:long").text


def test_every_id_has_an_address(web: httpx.Client, shop: Shop) -> None:
    shop.submit(*ODD)
    for job_id in ODD:
        assert web.get(at(job_id)).json()["job_id"] == job_id
        assert web.get(f"{at(job_id)}/trace").status_code == 200
        cancelled = web.post(f"{at(job_id)}/cancel", json={"reason": "enough"}).json()
        assert cancelled == {"job_id": job_id, "state": "UNSCHEDULED"}
        assert web.delete(at(job_id)).json() == {"job_id": job_id, "deleted": True}
        assert web.get(at(job_id)).status_code == 404
    assert shop.states(*ODD) == [None] * len(ODD)


def test_a_batch_is_submitted_as_a_whole_or_not_at_all(web: httpx.Client, shop: Shop) -> None:
    jobs = [
        {"job_id": f"b{number}", "wait_for": [f"b{number - 1}"] if number else []} for number in range(1000)
    ]
    answer = web.post("/api/jobs/batch", json={"jobs": jobs})
    assert answer.status_code == 201
    assert answer.json()["ids"] == [job["job_id"] for job in jobs]
    again = web.post("/api/jobs/batch", json={"jobs": [{"job_id": "new"}, {"job_id": "b7"}]})
    assert again.status_code == 409
    assert "b7" in again.json()["detail"]
    assert shop.states("new") == [None]
    assert web.post("/api/jobs/batch", json={"jobs": [*jobs, {}]}).status_code == 422


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"job_id": ""}, "job_id"),
        ({"job_id": "a\0b"}, "NUL"),
        ({"queue": "x" * 41}, "queue"),
        ({"priority": "3"}, "priority"),
        ({"priority": 2**40}, "priority"),
        ({"colour": "red"}, "colour"),
        ({"payload": 1, "args": []}, "args and payload"),
        ({"payload_bytes": "ä"}, "base64"),
        ({"expires_at": 3}, "expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "time zone"),
        ({"wait_for": ["nobody"]}, "nobody"),
        ({"retry": {"attempts": "many"}}, ""),
        ({"delay_s": -1}, "delay_s"),
        ({"tags": "eu"}, "tags"),
        ([], "body"),
    ],
)
def test_what_cannot_be_a_job_is_refused_by_name(
    web: httpx.Client, shop: Shop, body: object, says: str
) -> None:
    answer = web.post("/api/jobs", json=body)
    if says:
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert says in answer.json()["detail"]
    assert shop.store.get_job_stats().total_jobs == (0 if says else 1)


def test_a_list_comes_in_pages_the_latest_first(web: httpx.Client, shop: Shop) -> None:
    shop.submit(*(f"job-{number}" for number in range(7)))
    pages, cursor = [], None
    while True:
        found = web.get("/api/jobs", params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        assert found["complete"] is True
        pages.append([job["job_id"] for job in found["jobs"]])
        cursor = found["next"]
        if cursor is None:
            break
    assert pages == [["job-6", "job-5", "job-4"], ["job-3", "job-2", "job-1"], ["job-0"]]


def test_a_query_narrows_lists_and_counts(web: httpx.Client, shop: Shop) -> None:
    shop.submit("a", "b", queue="mail")
    shop.dead("d", error="no such address")
    found = web.get("/api/jobs", params={"q": 'state:DEAD error:"no such"'}).json()
    assert [job["job_id"] for job in found["jobs"]] == ["d"]
    assert web.get("/api/jobs/count", params={"q": "queue:mail"}).json() == {"count": 2, "capped": False}


def test_a_query_that_cannot_be_read_says_where(web: httpx.Client) -> None:
    answer = web.get("/api/jobs", params={"q": "state:DEAD colour:red"})
    assert answer.status_code == 422
    assert answer.json()["position"] == 11
    assert answer.json()["piece"] == "colour:red"


@pytest.mark.parametrize("wrong", ["limit=0", "limit=201", "limit=x", "cursor=x", "cursor=1~x", "reveal=2"])
def test_a_page_that_cannot_be_is_refused(web: httpx.Client, wrong: str) -> None:
    assert web.get(f"/api/jobs?{wrong}").status_code == 422


def test_large_content_is_left_out_of_lists_and_there_on_its_own(web: httpx.Client, shop: Shop) -> None:
    large = {"text": "x" * 10_000}
    shop.ended("one", Completed("y" * 10_000), payload=large)
    (listed,) = web.get("/api/jobs").json()["jobs"]
    assert (listed["payload"], listed["result"]) == (None, None)
    assert listed["left_out"] == ["payload", "result"]
    assert web.get("/api/jobs/one").json()["payload"] == large


def test_a_job_shows_its_relatives_its_errors_and_its_trace(web: httpx.Client, shop: Shop) -> None:
    shop.submit("parent")
    shop.submit("child", wait_for=["parent"])
    parent, child = (web.get(f"/api/jobs/{name}").json() for name in ("parent", "child"))
    assert [each["job_id"] for each in parent["children"]] == ["child"]
    assert [each["job_id"] for each in child["parents"]] == ["parent"]
    shop.dead("dead")
    dead = web.get("/api/jobs/dead").json()
    assert [error["message"] for error in dead["errors"]] == ["no such address"]
    assert [event["event"] for event in dead["trace"]["events"]] == ["job_dead"]


def test_a_running_job_is_asked_to_stop_and_a_finished_one_is_not(web: httpx.Client, shop: Shop) -> None:
    shop.running("busy")
    assert web.post("/api/jobs/busy/cancel").json()["state"] == "CANCELLING"
    shop.ended("over")
    refused = web.post("/api/jobs/over/cancel")
    assert refused.status_code == 409
    assert refused.json()["title"] == "Not in this state"


def test_a_dead_job_is_revived_once(web: httpx.Client, shop: Shop) -> None:
    shop.dead("d")
    assert web.post("/api/jobs/d/revive").json() == {"job_id": "d", "state": "RESCHEDULED"}
    assert web.post("/api/jobs/d/revive").status_code == 409


def test_only_what_has_ended_is_deleted(web: httpx.Client, shop: Shop) -> None:
    shop.submit("waits")
    assert web.delete("/api/jobs/waits").status_code == 409
    assert web.delete("/api/jobs/nobody").status_code == 404


def test_values_under_telling_names_are_redacted_unless_an_admin_asks(serve: Serve, shop: Shop) -> None:
    secret = {"kwargs": {"user": "ada", "Password": "hush", "deep": [{"api_key": {"a": "hush"}}]}}
    shop.ended("s", Completed({"token": "hush"}), payload=secret)
    with httpx.Client(base_url=serve(tokens=TOKENS).address) as web:
        for path in ("/api/jobs", "/api/jobs/s", "/api/jobs?q=id:s"):
            for who in (VIEWER, ADMIN):
                shown = web.get(path, headers=who)
                assert "hush" not in shown.text
                assert "ada" in shown.text
        assert web.get("/api/jobs/s?reveal=1", headers=VIEWER).status_code == 403
        assert web.get("/api/jobs/s?reveal=1", headers=ADMIN).json()["payload"] == secret
        # Nor can it be guessed by asking who has it.
        assert web.get("/api/jobs?q=args.Password:h*", headers=VIEWER).status_code == 403
        assert web.get("/api/jobs/count?q=-args.deep.0.api_key:x", headers=VIEWER).status_code == 403
        assert web.get("/api/jobs?q=args.user:ada", headers=VIEWER).json()["jobs"]
        assert web.get("/api/jobs/count?q=args.Password:h*&reveal=1", headers=ADMIN).json()["count"] == 1
