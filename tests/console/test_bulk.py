"""An action on all that match hits what was counted, and nothing that came later."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.console import bulk, run
from holdfast.console.bulk import Action, Progress, act, meant_by
from holdfast.console.search import count
from holdfast.domain.search import parse
from holdfast.errors import InvalidArgument
from holdfast.store.calls.searching import Snapshot
from tests.clock import Clock
from tests.console.conftest import Shop


def snapshot(shop: Shop, query: str = "") -> Snapshot:
    return run(shop.app, count(parse(query))).snapshot


def test_all_that_match_are_cancelled_and_others_are_not(shop: Shop) -> None:
    shop.submit("a", "b", queue="mail")
    shop.submit("c")
    shop.ended("done")
    told: list[Progress] = []
    query = parse("queue:mail")
    done = run(shop.app, act(Action.CANCEL, query, snapshot(shop), reason="not now", told=told.append))
    assert (done.changed, done.refused) == (2, 0)
    assert set(told[0].job_ids) == {"a", "b"}
    assert shop.states("a", "b", "c", "done") == [
        "UNSCHEDULED",
        "UNSCHEDULED",
        "INITIAL_PENDING",
        "COMPLETED",
    ]
    job = shop.store.get_job("a")
    assert job is not None
    assert job.error_message == "not now"


def test_dead_jobs_are_retried_and_deleted(shop: Shop) -> None:
    shop.dead("a", "b", "c")
    shop.ended("done")
    assert run(shop.app, act(Action.RETRY, parse("id:a,done"), snapshot(shop))).changed == 1
    assert run(shop.app, act(Action.DELETE, parse("id:b,done,a"), snapshot(shop))).changed == 2
    assert shop.states("a", "b", "c", "done") == ["RESCHEDULED", None, "DEAD", None]


@pytest.mark.parametrize("action", [Action.CANCEL, Action.RETRY, Action.DELETE])
def test_what_comes_after_the_count_is_never_hit(shop: Shop, action: Action, clock: Clock) -> None:
    query = parse("" if action is Action.CANCEL else "state:DEAD")
    shop.submit("a", queue="mine")
    shop.dead("b")
    seen = snapshot(shop)
    clock.advance(1)
    (job,) = shop.store.claim_jobs("ann", ["mine"], 1)  # was there, but not dead yet
    shop.store.fail_job(job.job_id, "late", lease_id=job.lease_id, permanent=True)
    shop.submit("later")
    shop.dead("dead later")
    before = shop.states("later", "dead later")
    run(shop.app, act(action, query, seen))
    assert shop.states("later", "dead later") == before
    assert shop.states("a") == ["DEAD"]
    assert shop.states("b") == {"cancel": ["DEAD"], "retry": ["RESCHEDULED"], "delete": [None]}[action]


def test_it_goes_in_chunks_each_its_own_commit(
    shop: Shop, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 2)
    shop.submit(*(f"job {number}" for number in range(5)))
    committed: list[int] = []

    def told(progress: Progress) -> None:
        row = conn.execute("select count(*) from holdfast.jobs_archive").fetchone()
        assert row is not None
        committed.append(row[0])
        assert progress.changed == row[0]

    run(shop.app, act(Action.CANCEL, parse("queue:default"), snapshot(shop), told=told))
    assert committed == [2, 4, 5]


def test_no_more_than_asked_for(shop: Shop) -> None:
    shop.submit("a", "b", "c")
    assert run(shop.app, act(Action.CANCEL, parse(""), snapshot(shop), most=2)).changed == 2
    assert shop.states("a", "b", "c") == ["INITIAL_PENDING", "UNSCHEDULED", "UNSCHEDULED"]


def test_it_goes_on_where_a_search_would_stop_looking(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    shop.submit("needle", task="sewing")
    conn.execute("select holdfast.submit_jobs(p_queues => array_fill('hay'::text, array[8000]))")
    assert run(shop.app, act(Action.CANCEL, parse("task:sewing"), snapshot(shop))).changed == 1


def test_a_job_that_cannot_be_deleted_keeps_only_itself(shop: Shop) -> None:
    shop.dead("a", "b", "c", "d", "e")
    shop.submit("child", wait_for=["c"])
    done = run(shop.app, act(Action.DELETE, parse("state:DEAD"), snapshot(shop)))
    assert (done.changed, done.refused) == (4, 1)
    assert done.reason is not None
    assert '"child" waits for job "c"' in done.reason
    assert shop.states("a", "b", "c", "d", "e") == [None, None, "DEAD", None, None]


def test_a_job_that_changed_since_it_was_found_is_left_alone(shop: Shop) -> None:
    shop.dead("a", "b")
    seen = snapshot(shop)
    shop.store.revive_job("a")
    assert run(shop.app, act(Action.RETRY, parse("state:DEAD"), seen)).changed == 1
    assert run(shop.app, act(Action.DELETE, parse("id:a"), seen)).changed == 0


def test_a_query_without_states_means_those_it_can_be_done_to() -> None:
    assert str(meant_by(parse("queue:a"), Action.RETRY)) == "queue:a state:DEAD"
    assert "DEAD" not in str(meant_by(parse("queue:a"), Action.CANCEL))
    assert str(meant_by(parse("state:DEAD"), Action.CANCEL)) == "state:DEAD state:DEAD"
    with pytest.raises(InvalidArgument, match="it must be in DEAD"):
        meant_by(parse("state:COMPLETED"), Action.RETRY)
