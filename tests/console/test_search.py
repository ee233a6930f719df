"""A search finds the jobs its query means, live and archived, page by page, and says where it stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from psycopg.conninfo import make_conninfo

from holdfast.app import Holdfast
from holdfast.console import arun, run, search
from holdfast.console.bulk import Action, act
from holdfast.console.search import count, light_page, page
from holdfast.console.walks import Cursor
from holdfast.domain.outcome import Failed
from holdfast.domain.search import Query, parse
from holdfast.errors import InvalidArgument
from holdfast.store.calls import searching
from tests.clock import Clock
from tests.console.conftest import Shop
from tests.unit.test_domain_search import QUERIES


def found(shop: Shop, query: str, **options: Any) -> list[str]:
    return [job.job_id for job in run(shop.app, page(parse(query), **options)).jobs]


@pytest.fixture
def crowd(shop: Shop) -> Shop:
    """From the first to the last: one of each kind."""
    shop.ended(
        "done", tags=["eu", "vip"], payload={"args": ["x"], "kwargs": {"user": 42, "to": {"name": "ann"}}}
    )
    shop.dead("lost", error="timed out after 100% of 5_s", priority=3, payload={"user": "42"})
    shop.running("busy", singleton_key="smtp", payload={"args": [42], "kwargs": {}})
    shop.submit("parent", queue="mail", tags=["eu"])
    shop.submit("child", queue="mail", wait_for=["parent"], task="shop.report")
    shop.submit("order:1 [red]", task=None, priority=-5, queue="mail")
    return shop


ALL = ["order:1 [red]", "child", "parent", "busy", "lost", "done"]


@pytest.mark.parametrize(
    ("query", "job_ids"),
    [
        ("", ALL),
        ("state:DEAD", ["lost"]),
        ("state:DEAD,COMPLETED", ["lost", "done"]),
        ("-state:DEAD,COMPLETED,RUNNING", ["order:1 [red]", "child", "parent"]),
        ("state:RUNNING", ["busy"]),
        ("state:RUNNING worker:ann", []),
        ("state:RUNNING -state:RUNNING", []),
        ("status:PENDING_JOBS", ["child"]),
        ("status:COMPLETED", "at character 1"),
        ("queue:mail", ["order:1 [red]", "child", "parent"]),
        ("queue:m*,once", ["order:1 [red]", "child", "parent", "lost", "done"]),
        ("task:shop.report", ["child"]),
        ("-task:shop.send", ["order:1 [red]", "child"]),
        ("task:*.re*", ["child"]),
        ("task:shop_send", []),
        ("tag:eu", ["parent", "done"]),
        ("tag:eu tag:vip", ["done"]),
        ("tag:eu,vip -state:COMPLETED", ["parent"]),
        ("tag:v*", ["done"]),
        ("-tag:eu", ["order:1 [red]", "child", "busy", "lost"]),
        ("id:lost", ["lost"]),
        ("id:lost,done,nobody", ["lost", "done"]),
        ("id:lost state:COMPLETED", []),
        ('id:"order:1 [red]"', ["order:1 [red]"]),
        ("id:*o*", ["order:1 [red]", "lost", "done"]),
        ("worker:ann", ["lost", "done"]),
        ("key:smtp", ["busy"]),
        ("key:s*", ["busy"]),
        ('error:"Timed OUT"', ["lost"]),
        ("error:100%", ["lost"]),
        ("error:5_s", ["lost"]),
        ("error:5%s", []),
        ("error:timed*5", ["lost"]),
        ("TIMED", ["lost"]),
        ("shop.rep", ["child"]),
        ("[red]", ["order:1 [red]"]),
        ("-shop", ["order:1 [red]"]),
        ("args.user:42", ["lost", "done"]),
        ("args.user:4*", ["lost", "done"]),
        ("args.to.name:ann", ["done"]),
        ("args.0:42", ["busy"]),
        ("args.0:x,42", ["busy", "done"]),
        ("-args.user:42", ["order:1 [red]", "child", "parent", "busy"]),
        ("attempts>=1", ["lost"]),
        ("attempts:0 state:COMPLETED", ["done"]),
        ("priority>0", ["lost"]),
        ("priority<=-5", ["order:1 [red]"]),
        ("age<1h", ALL),
        ("age>1h", []),
        ("finished<1h", ["lost", "done"]),
        ("-finished<1h", ["order:1 [red]", "child", "parent", "busy"]),
    ],
)
def test_a_query_finds_what_it_means(crowd: Shop, query: str, job_ids: list[str] | str) -> None:
    if isinstance(job_ids, str):
        with pytest.raises(InvalidArgument, match=job_ids):
            found(crowd, query)
        return
    assert found(crowd, query) == job_ids
    counted = run(crowd.app, count(parse(query)))
    assert (counted.jobs, counted.at_least, counted.stopped_after) == (len(job_ids), False, None)


def test_ages_are_measured_by_the_clock_of_the_database(shop: Shop, clock: Clock) -> None:
    shop.submit("old")
    clock.advance(3600)
    shop.submit("new")
    assert found(shop, "age>59m") == ["old"]
    assert found(shop, "age<59m") == ["new"]


@pytest.mark.parametrize(
    "query", ["", "state:DEAD", "queue:once", "tag:eu", "state:DEAD,COMPLETED tag:eu", "id:*"]
)
def test_the_pages_together_are_the_whole_list_and_no_job_is_on_two(shop: Shop, query: str) -> None:
    for number in range(12):
        shop.dead(f"dead {number}", tags=["eu"])
        shop.ended(f"done {number}", tags=["eu"])
    whole = found(shop, query)
    pages: list[str] = []
    cursor: Cursor | None = None
    while True:
        each = run(shop.app, page(parse(query), 5, cursor))
        pages += [job.job_id for job in each.jobs]
        if each.next is None:
            break
        cursor = Cursor.read(str(each.next))
    assert pages == whole
    assert len(set(whole)) == len(whole) == (12 if query == "state:DEAD" else 24)


def test_nothing_is_skipped_where_live_and_archived_jobs_are_more_than_a_slice(
    shop: Shop, conn: psycopg.Connection[Any]
) -> None:
    for queue in ("archive", "line"):
        conn.execute("select holdfast.submit_jobs(p_queues => array_fill(%s::text, array[1500]))", [queue])
        if queue == "archive":
            run(shop.app, act(Action.CANCEL, Query(), run(shop.app, count(Query())).snapshot))
    seen: list[str] = []
    cursor: Cursor | None = None
    while True:
        each = run(shop.app, page(parse("queue:line,archive"), 1000, cursor))
        seen += [job.job_id for job in each.jobs]
        if (cursor := each.next) is None:
            break
    assert (len(seen), len(set(seen))) == (3000, 3000)
    assert run(shop.app, count(parse("queue:line,archive"))).jobs == 3000


def test_pages_stand_still_while_jobs_come_and_end(shop: Shop) -> None:
    shop.submit(*(f"job {number}" for number in range(4)), queue="once")
    first = run(shop.app, page(Query(), 2))
    shop.submit("later")
    (job,) = shop.store.claim_jobs("ann", ["once"], 1)
    shop.store.complete_job(job.job_id, job.lease_id, "ann")
    assert [job.job_id for job in first.jobs] == ["job 3", "job 2"]
    assert found(shop, "", after=first.next) == ["job 1", "job 0"]


def test_dead_jobs_come_by_their_end(shop: Shop, clock: Clock) -> None:
    shop.submit("first")
    shop.dead("second")
    (job,) = shop.store.claim_jobs("ann", ["default"], 1)
    clock.advance(1)
    shop.store.settle_jobs([(job.job_id, job.lease_id, Failed("late", permanent=True))])
    assert found(shop, "state:DEAD") == ["first", "second"]


def test_a_count_ends_where_it_is_told_to(shop: Shop) -> None:
    shop.submit(*(f"job {number}" for number in range(6)))
    shop.dead(*(f"dead {number}" for number in range(6)))
    for query in ("queue:default", "state:DEAD"):
        assert str(run(shop.app, count(parse(query), most=5))) == "5+"
        assert str(run(shop.app, count(parse(query), most=6))) == "6"


def test_a_search_that_stops_looking_says_so_and_can_go_on(
    shop: Shop, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.submit("needle", task="sewing")
    conn.execute("select holdfast.submit_jobs(p_queues => array_fill('hay'::text, array[1500]))")
    monkeypatch.setattr(search, "MOST_LOOKED", 1000)
    stopped = run(shop.app, page(parse("task:sewing")))
    assert (stopped.jobs, stopped.stopped_after) == ((), 1000)
    assert run(shop.app, count(parse("task:sewing"))).stopped_after == 1000
    assert found(shop, "task:sewing", after=stopped.next) == ["needle"]


def test_a_full_page_is_no_stop(shop: Shop) -> None:
    shop.submit("a", "b")
    assert run(shop.app, page(Query(), 2)) == replace(run(shop.app, page(Query(), 2)), next=None)
    first = run(shop.app, page(Query(), 1))
    assert (len(first.jobs), first.stopped_after) == (1, None)
    assert first.next is not None


def test_a_search_can_be_awaited(shop: Shop) -> None:
    shop.submit("a")

    async def look() -> list[str]:
        try:
            return [job.job_id for job in (await arun(shop.app, page(Query()))).jobs]
        finally:
            await shop.app.aclose()

    assert asyncio.run(look()) == ["a"]


def test_readers_may_search(crowd: Shop, database: str) -> None:
    with Holdfast(make_conninfo(database, options="-c role=holdfast_viewer")) as app:
        for query in ("", "state:DEAD", "state:RUNNING", "tag:eu", "id:lost", "age<1h status:READY,PAUSED"):
            viewed = run(app, page(parse(query)))
            assert viewed == run(crowd.app, page(parse(query)))
            run(app, count(parse(query)))


@pytest.mark.parametrize("text", ["", "x", "1~", "1~x", "-1", f"{2**63}", "1~2026-01-01", "1e3"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no place"):
        Cursor.read(text)


def test_a_page_has_a_size() -> None:
    with pytest.raises(InvalidArgument, match="1 to 1000"):
        next(page(Query(), 1001))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(QUERIES)
def test_any_query_that_can_be_said_can_be_asked(shop: Shop, query: Query) -> None:
    run(shop.app, page(query))
    run(shop.app, count(query))


def test_no_value_of_a_query_is_part_of_a_statement() -> None:
    query = parse(
        "queue:needle task:needle* tag:needle args.needle:needle error:needle needle "
        "age>7777777ms attempts>7777777"
    )
    call = searching.look(query, ["live", "archived"], below=7777777, slice_=1000, most=7777)
    assert "needle" not in call.statement.sql
    assert "7777" not in call.statement.sql


def test_a_search_without_patience_ends_after_one_slice_and_says_where(shop: Shop) -> None:
    shop.submit("wanted", task="rare")
    shop.submit(*(f"job-{number}" for number in range(searching.SLICES[0])))
    hasty = run(shop.app, light_page(parse("task:rare"), patience_s=-1))
    assert (hasty.jobs, hasty.stopped_after) == ((), searching.SLICES[0])
    further = run(shop.app, light_page(parse("task:rare"), after=hasty.next, patience_s=-1))
    assert [each.job.job_id for each in further.jobs] == ["wanted"]
    assert (further.next, further.stopped_after) == (None, None)
    counted = run(shop.app, count(parse("task:rare"), patience_s=-1))
    assert (counted.jobs, counted.is_capped) == (0, True)


def test_a_list_is_light_however_large_its_jobs_are(shop: Shop) -> None:
    shop.submit("stored large", payload={"noise": "".join(chr(33 + n * n % 89) for n in range(20_000))})
    shop.submit("stored small", payload=" " * 20_000)
    shop.submit("bytes", payload=b"\0" * 20_000)
    shop.submit("small", payload="x")
    shop.dead("dead")
    found = {each.job.job_id: each for each in run(shop.app, light_page(parse(""))).jobs}
    assert {job_id: each.left_out for job_id, each in found.items()} == {
        "stored large": ("payload",),
        "stored small": ("payload",),
        "bytes": ("payload_bytes",),
        "small": (),
        "dead": ("errors",),
    }
    assert found["small"].job.payload == "x"
    assert {found[job_id].job.payload for job_id in ("stored large", "stored small", "bytes")} == {None}
