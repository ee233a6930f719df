"""Calls of the engine in every shape that has a plan of its own, each with the number of jobs it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]
Parameters = Sequence[object]
Before = Callable[[Connection], Parameters]

IN_LINE = "j1000"
A_PARENT = "j500001"  # one job waits for it
ARCHIVED = "j3000001"
ARCHIVED_BY_NAME = "order 3000005"
DEAD = "j2400001"


@dataclass(frozen=True, slots=True)
class Call:
    """A call, how many jobs it is about, and what has to happen before it, which gives its parameters."""

    sql: str
    jobs: int
    before: Before = lambda _: ()
    scans: str = ""  # the one table it may read from the start, as long as it stops in time
    answers: bool = True  # False: it says nothing when all is well


def claimed(count: int, queue: str = "line") -> Before:
    """Claim jobs; the parameters are their ids and their leases."""

    def claim(conn: Connection) -> Parameters:
        query = "select job_id, lease_id from holdfast.claim_jobs('w', %s, %s)"
        jobs = conn.execute(query, [[queue], count]).fetchall()
        return [job_id for job_id, _ in jobs], [lease_id for _, lease_id in jobs]

    return claim


def one_claimed(conn: Connection) -> Parameters:
    query = "select job_id, lease_id from holdfast.claim_jobs('w', '{line}')"
    ((job_id, lease_id),) = conn.execute(query).fetchall()
    return job_id, lease_id


def held(count: int) -> Before:
    def claim(conn: Connection) -> Parameters:
        claimed(count)(conn)
        return ()

    return claim


def overdue(count: int) -> Before:
    def lapse(conn: Connection) -> Parameters:
        claimed(count)(conn)
        conn.execute(
            "update holdfast.jobs set lease_expires_at = now() - interval '1 second' where state = 'RUNNING'"
        )
        conn.execute("update holdfast.claims set look_at = now() - interval '1 second'")
        return ()

    return lapse


def settled(count: int) -> Before:
    def settle(conn: Connection) -> Parameters:
        jobs = claimed(count)(conn)
        conn.execute(_settle(_repeated("complete", count)).encode(), jobs)
        return jobs

    return settle


def parent_of(count: int) -> Before:
    def submit(conn: Connection) -> Parameters:
        conn.execute("select holdfast.submit_job('parent', 'w', 'family')")
        children = (
            f"{_submit(count, 'family')}, p_wait_for => array_fill('[\"parent\"]'::jsonb, array[{count}]))"
        )
        conn.execute(children.encode())
        return claimed(1, "family")(conn)

    return submit


def halfway(conn: Connection) -> Parameters:
    """When a job in the middle of the line became due."""
    (row,) = conn.execute("select available_at from holdfast.jobs where id = 300000").fetchall()
    return [row[0]]


def _repeated(text: str, count: int) -> str:
    return f"array_fill('{text}'::text, array[{count}])"


def _settle(operations: str) -> str:
    messages = f"array_fill('boom'::text, array[cardinality({operations})])"
    return (
        f"select * from holdfast.settle_jobs(%s::text[], {operations}, %s::text[], p_messages => {messages})"
    )


def _mixed(count: int) -> str:
    words = "array['complete', 'fail', 'reschedule', 'release', 'stop']"
    return f"array(select ({words})[1 + mod(n, 5)] from generate_series(1, {count}) as n)"


def _beat(count: int, queue: str) -> str:
    done = f"%s::text[], {_repeated('complete', count)}, %s::text[]"
    return f"select * from holdfast.settle_and_claim({done}, 'w', '{{{queue}}}', {count})"


def _submit(count: int, queue: str = "line") -> str:
    return f"select * from holdfast.submit_jobs(p_queues => {_repeated(queue, count)}"


def batches(count: int) -> dict[str, Call]:
    """The calls for many jobs at once."""
    names = f"array(select 'mine ' || n from generate_series(1, {count}) as n)"
    parents = f"array(select jsonb_build_array('j' || 1000 + n) from generate_series(1, {count}) as n)"
    anyway = f"p_if_parent_fails => {_repeated('run', count)}"
    return {
        "claim": Call(f"select * from holdfast.claim_jobs('w', '{{line}}', {count})", count),
        "claim of three queues": Call(
            f"select * from holdfast.claim_jobs('w', '{{line,second,tagged}}', {count})", count
        ),
        "claim of ten priorities": Call(
            f"select * from holdfast.claim_jobs('w', '{{ranked,line}}', {count})", count
        ),
        "claim by a tag": Call(
            f"select * from holdfast.claim_jobs('w', '{{tagged}}', {count}, p_tags => '{{common}}')", count
        ),
        "claim from a floor": Call(
            f"select * from holdfast.claim_jobs('w', '{{line}}', {count}, p_floor_at => %s)",
            count,
            halfway,
        ),
        "settle completed": Call(_settle(_repeated("complete", count)), count, claimed(count)),
        "settle mixed": Call(_settle(_mixed(count)), count, claimed(count)),
        "settle failed": Call(_settle(_repeated("fail", count)), count, claimed(count)),
        "settle twice": Call(_settle(_repeated("complete", count)), count, settled(count)),
        "settle and claim": Call(_beat(count, "line"), 2 * count, claimed(count)),
        "settle and find nothing": Call(_beat(count, "nothing"), count, claimed(count)),
        "complete a parent of many": Call(
            "select * from holdfast.settle_jobs(%s::text[], '{complete}', %s::text[])",
            count + 1,
            parent_of(count),
        ),
        "extend": Call(
            "select * from holdfast.extend_leases(%s::text[], %s::text[], 60)", count, claimed(count)
        ),
        "lapse": Call(f"select * from holdfast.lapse_leases({count})", count, overdue(count)),
        "held_jobs": Call("select * from holdfast.held_jobs('line')", count, held(count)),
        "release a worker's": Call("select holdfast.mark_worker_unresponsive('w')", count, held(count)),
        "submit": Call(f"{_submit(count)})", count),
        "submit by name": Call(f"{_submit(count)}, p_job_ids => {names})", count),
        "submit that wait": Call(f"{_submit(count)}, p_wait_for => {parents})", 2 * count),
        "submit that run anyway": Call(f"{_submit(count)}, p_wait_for => {parents}, {anyway})", 2 * count),
        "list the dead of a queue": Call(f"select * from holdfast.list_dead_jobs('dead 3', {count})", count),
        "list the stuck": Call("select * from holdfast.list_stuck_jobs(0.000001)", count, held(count)),
        "cancel the expired": Call(f"select holdfast.cancel_expired_jobs(3600, {count})", count),
        "clean up": Call(
            f"select holdfast.cleanup_expired_jobs(3600, {count})", count, scans="archived_jobs"
        ),
    }


SINGLE = {
    "claim one": Call("select * from holdfast.claim_jobs('w', '{line}')", 1),
    "claim of a job that was told of": Call(
        "select * from holdfast.claim_waiting_job('j400000', 'w', '{line}', 10, 30, '{}', p_sweep => false)",
        1,
    ),
    "claim of a job that was told of, several queues": Call(
        "select * from holdfast.claim_waiting_job('j400000', 'w', '{second,line}', 10, p_sweep => false)", 1
    ),
    "claim of an empty queue": Call("select * from holdfast.claim_jobs('w', '{nothing}', 100)", 0),
    "get_work": Call("select * from holdfast.get_work('w', '{line}')", 1),
    "get_work of nothing": Call("select * from holdfast.get_work('w', '{nothing}')", 0),
    "next_due": Call("select holdfast.next_due('{line}')", 1),
    "next_due of ten priorities": Call("select holdfast.next_due('{ranked,line,second}')", 12),
    "jobs_of_stream": Call("select * from holdfast.jobs_of_stream(7)", 0),
    "complete_job": Call("select holdfast.complete_job(%s, %s, 'w')", 1, one_claimed),
    "fail_job": Call(
        "select holdfast.fail_job(p_job_id => %s, p_lease_id => %s, p_error => 'boom')", 1, one_claimed
    ),
    "reschedule_job": Call("select * from holdfast.reschedule_job(%s, %s, 'w', 'line')", 1, one_claimed),
    "reschedule_job to wait": Call(
        "select * from holdfast.reschedule_job(%s, %s, 'w', 'line', '{j5001,j5002}')", 3, one_claimed
    ),
    "extend_lease": Call("select holdfast.extend_lease(%s, %s, 'w')", 1, one_claimed),
    "report_progress": Call("select holdfast.report_progress(%s, %s, 1)", 1, one_claimed),
    "acquire_resources": Call(
        "select holdfast.acquire_resources(p_job_id => %s, p_lease_id => %s, p_keys => '{a,b}')",
        1,
        one_claimed,
    ),
    "lapse nothing": Call("select * from holdfast.lapse_leases()", 0),
    "submit_job": Call("select * from holdfast.submit_job('mine', 'w', 'line')", 1),
    "submit a plain job": Call(f"{_submit(1)})", 1),
    "submit a plain job by itself": Call("select holdfast.submit_plain_job(p_queue => 'line')", 1),
    "submit a plain job by name": Call(f"{_submit(1)}, p_job_ids => '{{mine}}')", 1),
    "submit a job that is not plain": Call(
        f"{_submit(1)}, p_priorities => '{{1}}', p_job_ids => '{{mine}}')", 1
    ),
    "submit_job that waits": Call(
        "select * from holdfast.submit_job('mine', 'w', 'line', %s)",
        3,
        lambda _: [[IN_LINE, ARCHIVED_BY_NAME]],
    ),
    "get_job": Call("select * from holdfast.get_job(%s)", 1, lambda _: [IN_LINE]),
    "get_job in the archive": Call("select * from holdfast.get_job(%s)", 1, lambda _: [ARCHIVED]),
    "get_job by name": Call("select * from holdfast.get_job(%s)", 1, lambda _: [ARCHIVED_BY_NAME]),
    "get_job that is not": Call("select * from holdfast.get_job('nobody')", 0),
    "list_dead_jobs of ten queues": Call("select * from holdfast.list_dead_jobs(p_limit => 100)", 1000),
    "get_job_stats by tag": Call("select * from holdfast.get_job_stats('{rare}')", 10),
    "tagged_jobs": Call("select * from holdfast.tagged_jobs('{rare}')", 10),
    "held_jobs of nobody": Call("select * from holdfast.held_jobs()", 0),
    "tagged_jobs nobody has": Call("select * from holdfast.tagged_jobs('{nobody}')", 0),
    "list_waiting_jobs": Call("select * from holdfast.list_waiting_jobs(%s)", 1, lambda _: [A_PARENT]),
    "cancel_job": Call("select * from holdfast.cancel_job(%s, 'w')", 1, lambda _: [IN_LINE]),
    "cancel_job with a child": Call("select * from holdfast.cancel_job(%s, 'w')", 2, lambda _: [A_PARENT]),
    "cancel_jobs by tag": Call("select * from holdfast.cancel_jobs('{rare}')", 10),
    "cancel_jobs by id": Call(
        "select * from holdfast.cancel_jobs(p_job_ids => %s)", 2, lambda _: [[IN_LINE, ARCHIVED_BY_NAME]]
    ),
    "revive_job": Call("select holdfast.revive_job(%s)", 1, lambda _: [DEAD]),
    "delete_jobs by id": Call(
        "select holdfast.delete_jobs(p_job_ids => %s)", 3, lambda _: [[ARCHIVED, ARCHIVED_BY_NAME, DEAD]]
    ),
    "delete_jobs by a tag nobody has": Call("select holdfast.delete_jobs('{nobody}')", 0),
    "cancel_expired_jobs, none old": Call("select holdfast.cancel_expired_jobs(604800)", 0),
}
