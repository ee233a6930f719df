"""Actions on all that match, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pytest

from holdfast.web import operations
from tests.console.conftest import Shop
from tests.web.conftest import ADMIN, TOKENS, VIEWER, Serve
from tests.web.waiting import eventually


def dry_run(web: httpx.Client, action: str, q: str) -> dict[str, Any]:
    answer = web.post("/api/bulk", json={"action": action, "q": q})
    assert answer.status_code == 200, answer.text
    counted: dict[str, Any] = answer.json()
    return counted


def begin(web: httpx.Client, action: str, q: str, snapshot: str, **more: Any) -> str:
    body = {"action": action, "q": q, "dry_run": False, "snapshot": snapshot, **more}
    answer = web.post("/api/bulk", json=body)
    assert answer.status_code == 202, answer.text
    operation: str = answer.json()["operation"]
    return operation


def ended(web: httpx.Client, operation: str) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        seen: dict[str, Any] = web.get(f"/api/bulk/{operation}").json()
        return None if seen["state"] == "running" else seen

    return eventually(over)


def test_a_dry_run_counts_shows_some_and_changes_nothing(web: httpx.Client, shop: Shop) -> None:
    shop.dead(*(f"d{number}" for number in range(7)))
    counted = dry_run(web, "revive", "state:DEAD")
    assert (counted["count"], counted["capped"]) == (7, False)
    assert [job["job_id"] for job in counted["samples"]] == ["d6", "d5", "d4", "d3", "d2"]
    assert shop.states("d0") == ["DEAD"]


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        ("revive", "DEAD", "RESCHEDULED"),
        ("cancel", "INITIAL_PENDING", "UNSCHEDULED"),
        ("delete", "DEAD", None),
    ],
)
def test_it_is_done_to_all_that_matched_and_to_none_that_came_later(
    web: httpx.Client, shop: Shop, action: str, before: str, after: str | None
) -> None:
    make = shop.dead if before == "DEAD" else shop.submit
    make("a", "b", "c")
    counted = dry_run(web, action, f"state:{before}")
    make("later")
    seen = ended(web, begin(web, action, f"state:{before}", counted["snapshot"]))
    assert (seen["state"], seen["done"], seen["refused"], seen["total"]) == ("done", 3, 0, 3)
    assert shop.states("a", "b", "c", "later") == [after, after, after, before]


def test_a_snapshot_said_to_be_of_the_future_is_one_of_now(web: httpx.Client, shop: Shop) -> None:
    shop.dead("a")
    snapshot = f"{2**62}~2999-01-01T00:00:00+00:00"
    seen = ended(web, begin(web, "revive", "state:DEAD", snapshot))
    assert seen["done"] == 1


def test_what_is_refused_says_why(web: httpx.Client, shop: Shop) -> None:
    shop.dead("parent")
    shop.submit("child", wait_for=["parent"])
    counted = dry_run(web, "delete", "state:DEAD")
    seen = ended(web, begin(web, "delete", "state:DEAD", counted["snapshot"]))
    assert (seen["done"], seen["refused"]) == (0, 1)
    assert "child" in seen["reason"]


def test_an_operation_is_stopped_between_two_chunks(
    web: httpx.Client, shop: Shop, conn: psycopg.Connection[Any]
) -> None:
    shop.submit(*(f"job-{number}" for number in range(1200)))
    counted = dry_run(web, "cancel", "state:INITIAL_PENDING")
    # Somebody holds a job of the second chunk, so that the operation waits there.
    conn.execute("begin")
    conn.execute("select 1 from holdfast.jobs where name = 'job-300' for update")
    operation = begin(web, "cancel", "state:INITIAL_PENDING", counted["snapshot"])
    eventually(lambda: web.get(f"/api/bulk/{operation}").json()["done"] == 500)
    stopping = web.post(f"/api/bulk/{operation}/stop").json()
    assert stopping["state"] == "running"
    conn.execute("rollback")
    seen = ended(web, operation)
    assert (seen["state"], seen["done"], seen["total"]) == ("stopped", 1000, 1200)
    assert shop.states("job-1199", "job-300", "job-0") == ["UNSCHEDULED", "UNSCHEDULED", "INITIAL_PENDING"]


def test_operations_are_few_at_a_time_and_stop_with_the_server(
    serve: Serve, shop: Shop, conn: psycopg.Connection[Any]
) -> None:
    shop.submit("held")
    running = serve()
    with httpx.Client(base_url=running.address) as web:
        snapshot = dry_run(web, "cancel", "id:held")["snapshot"]
        conn.execute("begin")
        conn.execute("select 1 from holdfast.jobs for update")
        for _ in range(operations.MOST_AT_ONCE):
            begin(web, "cancel", "id:held", snapshot)
        body = {"action": "cancel", "q": "id:held", "dry_run": False, "snapshot": snapshot}
        assert web.post("/api/bulk", json=body).status_code == 429
        running.stop()  # asserts that it does
        conn.execute("rollback")


@pytest.mark.parametrize(
    "wrong",
    [
        {"q": "  "},
        {"q": "state:COMPLETED"},
        {"q": "colour:red"},
        {"action": "paint"},
        {"dry_run": False},
        {"dry_run": False, "snapshot": "x"},
        {"dry_run": False, "snapshot": "1~2030-01-01T00:00:00"},
    ],
)
def test_an_action_that_makes_no_sense_is_refused(web: httpx.Client, wrong: dict[str, Any]) -> None:
    assert web.post("/api/bulk", json={"action": "revive", "q": "state:DEAD", **wrong}).status_code == 422


def test_an_operation_nobody_knows_is_a_problem(web: httpx.Client) -> None:
    assert web.get("/api/bulk/x").status_code == 404
    assert web.post("/api/bulk/x/stop").status_code == 404


def test_a_viewer_watches_an_operation_and_begins_none(serve: Serve, shop: Shop) -> None:
    shop.dead("a")
    with httpx.Client(base_url=serve(tokens=TOKENS).address, headers=ADMIN) as web:
        operation = begin(web, "revive", "state:DEAD", dry_run(web, "revive", "state:DEAD")["snapshot"])
        assert ended(web, operation)["by"] == "admin-name"
        assert web.get(f"/api/bulk/{operation}", headers=VIEWER).status_code == 200
        assert web.post(f"/api/bulk/{operation}/stop", headers=VIEWER).status_code == 403
