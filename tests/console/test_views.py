"""What people see beside lists of jobs is what there is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from psycopg.conninfo import make_conninfo

from holdfast.app import Holdfast
from holdfast.console import run, views
from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed
from holdfast.domain.states import JobState
from holdfast.errors import JobNotFound
from tests.clock import Clock
from tests.console.conftest import Shop


def test_a_job_is_seen_with_its_relatives_and_what_happened_to_it(shop: Shop) -> None:
    shop.dead("grandparent")
    shop.submit("parent", wait_for=["grandparent"])
    shop.submit("child", wait_for=["parent"])
    shop.store.cancel_job("child", "ann", "not needed")
    shop.submit("second", wait_for=["parent"])
    seen = run(shop.app, views.job_view("parent"))
    assert seen.job.job_id == "parent"
    assert [(job.job_id, job.state) for job in seen.parents] == [("grandparent", JobState.DEAD)]
    assert [job.job_id for job in seen.children] == ["second"]
    events = run(shop.app, views.trace("child")).events
    assert [(event.event, event.worker_id) for event in events] == [("job_cancelled", "ann")]
    with pytest.raises(JobNotFound):
        run(shop.app, views.job_view("nobody"))


def test_queues_say_how_long_their_lines_are(shop: Shop, clock: Clock) -> None:
    since = clock.freeze()
    shop.submit("a", "b", queue="mail", priority=1)
    shop.submit("low", queue="mail", priority=-1)
    shop.submit("later", queue="mail", delay_s=60)
    shop.submit("blocked", queue="mail", wait_for=["a"])
    shop.running("busy")
    shop.dead("lost")
    shop.store.pause_queue("still")
    clock.advance(30)
    shop.submit("c", queue="mail", priority=1)
    seen = run(shop.app, views.queues())
    found = {queue.queue: queue for queue in seen.queues}
    assert set(found) == {"mail", "now", "once", "still"}
    mail = found["mail"]
    assert (mail.due_jobs, mail.delayed_jobs, mail.blocked_jobs, mail.held_jobs, mail.dead_jobs) == (
        4,
        1,
        1,
        0,
        0,
    )
    assert (mail.oldest_due_at, mail.paused_at) == (since, None)
    assert (found["now"].held_jobs, found["once"].dead_jobs) == (1, 1)
    assert (found["still"].paused_at, found["still"].due_jobs) == (since, 0)
    assert (seen.at - since).total_seconds() == 30


def test_lines_are_counted_no_further_than_asked(shop: Shop) -> None:
    shop.submit("a", "b", "c")
    shop.submit("d", delay_s=60)
    shop.dead("x", "y", "z")
    seen = run(shop.app, views.queues(2))
    found = {queue.queue: queue for queue in seen.queues}
    assert found["default"].due_jobs + found["default"].delayed_jobs == 2
    assert found["once"].dead_jobs == 2
    assert run(shop.app, views.stats(2)).capped
    assert not run(shop.app, views.stats(5)).capped


def test_workers_are_busy_idle_or_lost(shop: Shop, clock: Clock) -> None:
    since = clock.freeze()
    shop.running("one", worker="ann")
    for worker in ("ann", "bob", "cid", "dan"):
        shop.store.report_worker(worker, ["now", "mail"], 3, host="h", pid=7, version="1", running_s=60)
    shop.running("two", worker="by hand")
    shop.store.report_worker("dan", ["now"], 3, stopped=True)
    clock.advance(29.9)
    shop.store.report_worker("ann", ["now", "mail"], 3, host="h", pid=7, version="1", running_s=89.9)
    shop.store.report_worker("bob", ["now", "mail"], 3, host="h", pid=7, version="1", running_s=89.9)
    clock.advance(0.1)
    seen = run(shop.app, views.workers()).workers
    assert [(worker.worker_id, worker.status, worker.jobs) for worker in seen] == [
        ("ann", "busy", 1),
        ("by hand", "busy", 1),
        ("bob", "idle", 0),
        ("cid", "lost", 0),
    ]
    bob = seen[2]
    assert (bob.queues, bob.capacity, bob.host, bob.pid, bob.version) == (("now", "mail"), 3, "h", 7, "1")
    assert bob.started_at == since - timedelta(seconds=60)
    assert bob.seen_at == since + timedelta(seconds=29.9)
    assert (bob.job_ids, bob.oldest_at, bob.lease_until) == ((), None, None)
    assert (seen[1].host, seen[1].capacity, seen[1].started_at) == (None, None, None)


def test_a_lost_worker_is_lost_though_it_holds_jobs_and_one_that_stopped_is_seen_while_it_does(
    shop: Shop, clock: Clock
) -> None:
    clock.freeze()
    for worker in ("ann", "bob"):
        shop.running(f"of {worker}", worker=worker)
        shop.store.report_worker(worker, ["now"], 1)
    shop.store.report_worker("bob", ["now"], 1, stopped=True)
    clock.advance(30)
    seen = run(shop.app, views.workers()).workers
    assert [(worker.worker_id, worker.status) for worker in seen] == [("ann", "lost"), ("bob", "busy")]


def test_a_worker_that_starts_again_under_its_name_has_a_new_start(shop: Shop, clock: Clock) -> None:
    clock.freeze()
    shop.store.report_worker("ann", ["q"], 1, pid=1)
    shop.store.report_worker("ann", ["q"], 1, pid=1, stopped=True)
    again = clock.advance(100)
    shop.store.report_worker("ann", ["q"], 1, pid=1)
    (seen,) = run(shop.app, views.workers()).workers
    assert (seen.status, seen.started_at) == ("idle", again)
    other = clock.advance(5)
    shop.store.report_worker("ann", ["q"], 1, pid=2)
    assert run(shop.app, views.workers()).workers[0].started_at == other


def test_whoever_holds_jobs_is_a_worker(shop: Shop, clock: Clock) -> None:
    clock.freeze()
    first = shop.running("one", worker="ann")
    clock.advance(10)
    shop.running("two", worker="ann")
    shop.running("three", worker="bob")
    shop.store.extend_lease("one", first, "ann", 600)
    shop.store.cancel_job("two", "me")
    clock.advance(65)
    seen = run(shop.app, views.workers())
    ann, bob = seen.workers
    assert (ann.worker_id, ann.jobs, ann.cancelling, ann.lapsed) == ("ann", 2, 1, 1)
    assert (ann.queues, ann.job_ids) == (("now",), ("one", "two"))
    assert ann.oldest_at is not None
    assert ((seen.at - ann.oldest_at).total_seconds(), (seen.at - ann.seen_at).total_seconds()) == (75, 65)
    assert (bob.worker_id, bob.lapsed) == ("bob", 1)


def test_resources_and_keys_name_their_holders_and_count_who_waits(shop: Shop) -> None:
    lease = shop.running("busy", worker="bob", singleton_key="one at a time", resource_keys=["smtp"])
    assert shop.store.acquire_resources("busy", ["smtp"], lease_id=lease) == []
    shop.store.set_resource_capacity("scanner", 3)
    shop.submit("a", "b", resource_keys=["smtp"])
    shop.submit("c", singleton_key="one at a time")
    found = {(each.kind, each.key): each for each in run(shop.app, views.resources())}
    smtp = found["resource", "smtp"]
    assert [(hold.job_id, hold.worker_id) for hold in smtp.holders] == [("busy", "bob")]
    assert (smtp.capacity, smtp.waiting) == (1, 2)
    assert (found["resource", "scanner"].capacity, found["resource", "scanner"].holders) == (3, ())
    key = found["singleton", "one at a time"]
    assert ([hold.job_id for hold in key.holders], key.waiting) == (["busy"], 1)


def test_figures_say_what_ended_lately(shop: Shop, clock: Clock) -> None:
    clock.freeze()
    shop.ended("old")
    clock.advance(600)
    shop.ended("new")
    shop.dead("lost")
    shop.submit("gone")
    shop.store.cancel_job("gone", "me")
    seen = run(shop.app, views.stats())
    lately = {JobState.COMPLETED: 1, JobState.DEAD: 1, JobState.UNSCHEDULED: 1}
    assert seen.ended_last_minute == lately
    assert seen.ended_last_hour == {**lately, JobState.COMPLETED: 2}
    assert (seen.dead, seen.due, seen.oldest_due_at) == (1, 0, None)


def test_the_history_has_a_point_for_every_minute_until_now(shop: Shop, clock: Clock) -> None:
    noon = clock.freeze(datetime(2035, 6, 1, 12, tzinfo=UTC))
    while shop.store.upkeep():
        pass
    for number in range(100):
        shop.submit(f"job {number}", queue="once")
        clock.advance(0.010 if number < 90 else 0.500)
        (job,) = shop.store.claim_jobs("ann", ["once"], 1)
        shop.store.settle_jobs([(job.job_id, job.lease_id, Completed())])
    shop.submit("waiting")
    clock.advance(120)
    while shop.store.upkeep():
        pass
    seen = run(shop.app, views.history(5))
    assert (seen.step_s, [point.at for point in seen.points]) == (
        60,
        [noon + timedelta(minutes=minute) for minute in range(-2, 3)],
    )
    ended, now = seen.points[2], seen.points[-1]
    assert (ended.completed, ended.dead) == (100, 0)
    assert ended.wait_p50_s == pytest.approx(0.010, rel=0.2)
    assert ended.wait_p95_s == pytest.approx(0.500, rel=0.2)
    assert ended.run_p50_s == pytest.approx(0, abs=0.001)
    assert ended.depth == 0
    assert (now.completed, now.wait_p50_s, now.depth, now.oldest_s) == (0, None, 1, 120)
    assert (seen.points[0].completed, seen.points[0].depth) == (0, None)


def test_a_long_history_has_few_points(shop: Shop, clock: Clock) -> None:
    clock.freeze()
    shop.ended("a")
    clock.advance(100)
    while shop.store.upkeep():
        pass
    for minutes, step_s, points in ((240, 60, 240), (241, 120, 121), (10080, 2520, 240)):
        seen = run(shop.app, views.history(minutes))
        assert (seen.step_s, len(seen.points)) == (step_s, points)
        assert sum(point.completed for point in seen.points) == 1


def test_readers_may_see_all_of_it(shop: Shop, database: str) -> None:
    shop.store.submit_jobs([NewJob(job_id="a", singleton_key="k")])
    with Holdfast(make_conninfo(database, options="-c role=holdfast_viewer")) as app:
        assert run(app, views.job_view("a")).job.job_id == "a"
        assert [queue.queue for queue in run(app, views.queues()).queues] == ["default"]
        assert run(app, views.workers()).workers == ()
        assert [each.key for each in run(app, views.resources())] == ["k"]
        assert run(app, views.stats()).due == 1
        assert len(run(app, views.history()).points) == 60
