"""The hot calls in the shapes that Python sends and SQL users write, beside those of `calls`.

One function has a plan for each statement in it, and which of them run depends on the arguments: a floor, a
key, a stream, one job or many, a settle that is refused. Each shape is listed once.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg

from tests.engine.crowd.calls import Before, Call, Parameters, claimed, held, one_claimed, settled

Connection = psycopg.Connection[Any]

STREAM = 77
BEAT = (
    "select * from holdfast.settle_and_claim(p_job_ids => %s::text[], p_operations => {operations}, "
    "p_lease_ids => %s::text[], p_results => {results}, p_messages => null, p_delays => {delays}, "
    "p_worker_id => 'w', p_queues => '{{{queues}}}', p_limit => {limit}, p_lease_seconds => 30, "
    f"p_tags => {{tags}}, p_stream_id => {STREAM}, "
    "p_sweep => {sweep}, p_floor_at => {floor}, p_floor_id => 0, p_floor_priority => 0, p_brief => true)"
)
SETTLE = (
    "select * from holdfast.settle_jobs(p_job_ids => %s::text[], p_operations => {operations}, "
    "p_lease_ids => {leases}, p_results => {results}, p_delays => {delays}, p_permanent => {permanent}, "
    "p_worker_id => {worker}, p_available_at => {moments})"
)
SUBMIT = "select * from holdfast.submit_jobs(p_queues => {queues}, {more})"


def filled(value: str, kind: str, count: int) -> str:
    return f"array_fill({value}::{kind}, array[{count}])"


def beat(count: int, **terms: object) -> str:
    """The feeder's call: everything named, a stream, a floor or none."""
    given = {
        "operations": filled("'complete'", "text", count),
        "results": "null",
        "delays": "null",
        "queues": "line",
        "limit": count,
        "tags": "null",
        "sweep": "false",
        "floor": "'-infinity'",
    }
    return BEAT.format(**(given | terms))


def settle(count: int, operation: str, **terms: str) -> str:
    given = {
        "operations": filled(f"'{operation}'", "text", count),
        "leases": "%s::text[]",
        "results": "null",
        "delays": "null",
        "permanent": "null",
        "worker": "null",
        "moments": "null",
    }
    return SETTLE.format(**(given | terms))


def submit(count: int, more: str, queue: str = "line") -> str:
    return SUBMIT.format(queues=filled(f"'{queue}'", "text", count), more=more)


def ids_of(before: Before) -> Before:
    """Only the ids of what was claimed."""

    def ids(conn: Connection) -> Parameters:
        return [before(conn)[0]]

    return ids


def with_other_leases(count: int) -> Before:
    """Jobs that were taken over: the leases are no longer theirs."""

    def claim(conn: Connection) -> Parameters:
        ids, leases = claimed(count)(conn)
        return ids, list(reversed(leases))  # type: ignore[call-overload]

    return claim


def lapsed(count: int) -> Before:
    """Jobs whose leases have ended, and nobody has swept them."""

    def lapse(conn: Connection) -> Parameters:
        held = claimed(count)(conn)
        overdue(conn)
        return held

    return lapse


def lapsed_before_a_claim(count: int) -> Before:
    def lapse(conn: Connection) -> Parameters:
        lapsed(count)(conn)
        return ()

    return lapse


def cancelling(count: int) -> Before:
    def cancel(conn: Connection) -> Parameters:
        held = claimed(count)(conn)
        conn.execute("select holdfast.cancel_jobs(p_job_ids => %s)", [held[0]])
        return held

    return cancel


def of_stream(count: int) -> Before:
    def claim(conn: Connection) -> Parameters:
        query = "select from holdfast.claim_jobs('w', '{line}', %s, p_stream_id => %s)"
        conn.execute(query, [count, STREAM])
        return ()

    return claim


def named(count: int) -> Before:
    """Jobs of callers' own ids, claimed."""

    def submit_and_claim(conn: Connection) -> Parameters:
        names = f"array(select 'mine ' || n from generate_series(1, {count}) as n)"
        conn.execute(submit(count, f"p_job_ids => {names}", "named").encode())
        return claimed(count, "named")(conn)

    return submit_and_claim


def keyed(count: int, *, claims: bool) -> Before:
    """Jobs with keys that nobody holds, at the front of a queue of their own; claimed, or not yet."""

    def submit_and_claim(conn: Connection) -> Parameters:
        keys = f"array(select 'free ' || n from generate_series(1, {count}) as n)"
        conn.execute(submit(count, f"p_singleton_keys => {keys}", "free").encode())
        return claimed(count, "free")(conn) if claims else ()

    return submit_and_claim


def holding_resources(count: int) -> Before:
    def acquire(conn: Connection) -> Parameters:
        conn.execute("select holdfast.set_resource_capacity('r', 2000)")
        ids, leases = claimed(count)(conn)
        for job_id, lease_id in zip(ids, leases, strict=True):  # type: ignore[call-overload]
            conn.execute("select holdfast.acquire_resources(%s, '{r}', %s)", [job_id, lease_id])
        return ids, leases

    return acquire


def made_up(count: int) -> Before:
    """Jobs that nobody has, with leases that look like some."""

    def invent(_: Connection) -> Parameters:
        return [f"nobody {number}" for number in range(count)], [str(UUID(int=n)) for n in range(count)]

    return invent


def overdue(conn: Connection) -> None:
    """Let every lease end."""
    conn.execute(
        "update holdfast.jobs set lease_expires_at = now() - interval '1 second' "
        "where state in ('RUNNING', 'CANCELLING')"
    )
    conn.execute("update holdfast.claims set look_at = now() - interval '1 second'")


def claims(count: int) -> dict[str, Call]:
    """Shapes of claim_jobs."""
    claim = "select * from holdfast.claim_jobs('w', '{{{queues}}}', {count}{more})"

    def shape(queues: str, more: str, before: Before = lambda _: (), jobs: int = count) -> Call:
        return Call(claim.format(queues=queues, count=count, more=more), jobs, before)

    floor = ", p_floor_at => now() - interval '1 day', p_floor_id => 1"
    return {
        "claim without a sweep": shape("line", ", p_sweep => false"),
        "claim for a stream": shape("line", f", p_stream_id => {STREAM}"),
        "claim from a floor with a number": shape("line", floor),
        "claim of three queues from a floor": shape("line,second,tagged", floor),
        "claim from a floor of its priority": shape("line", f"{floor}, p_floor_priority => 0"),
        "claim from a floor of another priority": shape("line", f"{floor}, p_floor_priority => 1"),
        "claim of three queues from a floor of their priority": shape(
            "line,second,tagged", f"{floor}, p_floor_priority => 0"
        ),
        "claim of three queues by a tag": shape("tagged,nothing,family", ", p_tags => '{common}'"),
        "claim of a queue named twice": shape("line,line", ""),
        "claim of free keys": shape("free", "", keyed(count, claims=False)),
        "claim of free keys for many": shape("free,line", "", keyed(count, claims=False), 2 * count),
        "claim that sweeps first": shape("second", "", lapsed_before_a_claim(count), 2 * count),
        "claim beside a paused queue": shape("second,line", "", paused),
        "claim of a queue with a limit": shape("line", "", limited("line", 100_000)),
        "claim beside a full queue": shape("second,line", "", limited("second", 1)),
    }


def paused(conn: Connection) -> Parameters:
    conn.execute("select holdfast.pause_queue('second')")
    return ()


def limited(queue: str, most: int) -> Before:
    def limit(conn: Connection) -> Parameters:
        conn.execute("select holdfast.set_queue_limit(%s, %s)", [queue, most])
        conn.execute("select holdfast.claim_jobs('other', array[%s], 1)", [queue])
        return ()

    return limit


def beats(count: int) -> dict[str, Call]:
    """Shapes of settle_and_claim, as the feeder sends it."""
    both = 2 * count
    words = "(array['complete', 'fail', 'reschedule'])[1 + mod(n, 3)]"
    mixed = f"array(select {words} from generate_series(1, {count}) as n)"
    return {
        "beat": Call(beat(count), both, claimed(count)),
        "beat from a floor": Call(beat(count, floor="now() - interval '1 day'"), both, claimed(count)),
        "beat that sweeps": Call(beat(count, sweep="true"), both, claimed(count)),
        "beat of three queues": Call(beat(count, queues="line,second,ranked"), both, claimed(count)),
        "beat by a tag": Call(beat(count, queues="tagged", tags="'{common}'"), both, claimed(count)),
        "beat with results": Call(
            beat(count, results=filled("'{\"done\": true}'", "jsonb", count)), both, claimed(count)
        ),
        "beat of several outcomes": Call(
            beat(count, operations=mixed, delays=filled("5", "double precision", count)), both, claimed(count)
        ),
        "beat that is refused": Call(beat(count), both, with_other_leases(count)),
        "beat of jobs with keys": Call(beat(count), both, keyed(count, claims=True)),
        "beat of jobs with resources": Call(beat(count), both, holding_resources(count)),
        "beat that only settles": Call(beat(count, limit=0), count, claimed(count), answers=False),
        "beat that only claims": Call(beat(0, limit=count).replace("%s", "'{}'"), count),
        "beat that only looks": Call(beat(0, queues="nothing", limit=count).replace("%s", "'{}'"), 1),
    }


def settles(count: int) -> dict[str, Call]:
    """Shapes of settle_jobs."""
    ours = claimed(count)
    shapes = {
        "with results": settle(count, "complete", results=filled("'{}'", "jsonb", count)),
        "rescheduled later": settle(count, "reschedule", delays=filled("60", "double precision", count)),
        "rescheduled to a moment": settle(
            count, "reschedule", moments=filled("(now() + interval '1 hour')", "timestamptz", count)
        ),
        "released": settle(count, "release"),
        "stopped": settle(count, "stop"),
        "of unknown end": settle(count, "mark_unknown_stopped"),
        "failed for good": settle(count, "fail", permanent=filled("true", "boolean", count)),
        "by their worker": settle(count, "complete", worker="'w'"),
    }
    return {
        **{f"settle {name}": Call(shape, count, ours) for name, shape in shapes.items()},
        "settle without leases": Call(settle(count, "complete", leases="null"), count, ids_of(ours)),
        "settle taken over": Call(settle(count, "complete"), count, with_other_leases(count)),
        "settle lapsed": Call(settle(count, "complete"), count, lapsed(count)),
        "settle cancelling": Call(settle(count, "stop"), count, cancelling(count)),
        "settle named": Call(settle(count, "complete"), count, named(count)),
        "settle with keys": Call(settle(count, "complete"), count, keyed(count, claims=True)),
        "settle with resources": Call(settle(count, "complete"), count, holding_resources(count)),
        "settle nobody's": Call(settle(count, "complete"), count, made_up(count)),
    }


def submits(count: int) -> dict[str, Call]:
    """Shapes of submit_jobs."""
    tomorrow = "now() + interval '1 day'"
    given = {
        "with payloads": ("p_payloads", """'{"args": [1], "kwargs": {}}'""", "jsonb"),
        "of a task": ("p_tasks", "'t'", "text"),
        "with keys": ("p_singleton_keys", "'free'", "text"),
        "with tags": ("p_tags", """'["common", "mine"]'""", "jsonb"),
        "with resources": ("p_resource_keys", """'["r"]'""", "jsonb"),
        "for later": ("p_delays", "60", "double precision"),
        "for a moment": ("p_available_at", f"({tomorrow})", "timestamptz"),
        "that expire": ("p_expires_at", f"({tomorrow})", "timestamptz"),
        "with priorities": ("p_priorities", "5", "integer"),
    }
    return {
        f"submit {name}": Call(submit(count, f"{parameter} => {filled(value, kind, count)}"), count)
        for name, (parameter, value, kind) in given.items()
    }


def leases(count: int) -> dict[str, Call]:
    """Shapes of what keeps and ends leases."""
    extend = "select * from holdfast.extend_leases(%s::text[], %s::text[], 60)"
    return {
        "extend lapsed": Call(extend, count, lapsed(count)),
        "extend taken": Call(extend, count, with_other_leases(count)),
        "extend cancelling": Call(extend, count, cancelling(count)),
        "extend ended": Call(extend, count, settled(count)),
        "lapse cancelling": Call(
            f"select * from holdfast.lapse_leases({count})", count, lapsed_cancelling(count)
        ),
        "lapse with keys": Call(f"select * from holdfast.lapse_leases({count})", count, lapsed_keyed(count)),
        "jobs of a stream": Call(f"select * from holdfast.jobs_of_stream({STREAM})", count, of_stream(count)),
    }


def lapsed_cancelling(count: int) -> Before:
    def lapse(conn: Connection) -> Parameters:
        cancelling(count)(conn)
        overdue(conn)
        return ()

    return lapse


def lapsed_keyed(count: int) -> Before:
    def lapse(conn: Connection) -> Parameters:
        keyed(count, claims=True)(conn)
        overdue(conn)
        return ()

    return lapse


def shapes(count: int) -> dict[str, Call]:
    """All of them, for so many jobs."""
    return claims(count) | beats(count) | settles(count) | submits(count) | leases(count)


def listened_to(conn: Connection) -> Parameters:
    """A few workers take jobs of the line, and all are busy."""
    conn.execute("select holdfast._attend(n, '{line}', 0, 60) from generate_series(1, 5) as n")
    return ()


LOOK = beat(0, queues="nothing", limit=1).replace("%s", "'{}'").removesuffix(")")
WAITS = f"{LOOK}, p_listener => 1, p_waits_seconds => 10)"

SINGLE_SHAPES = {
    "submit one beside busy workers": Call(
        submit(1, "p_payloads => array['{}'::jsonb], p_tasks => '{t}', p_own_transaction => true"),
        1,
        listened_to,
    ),
    "beat that waits": Call(WAITS, 1),
    "submit one": Call(submit(1, "p_payloads => array['{}'::jsonb], p_tasks => '{t}'"), 1),
    "beat of one": Call(beat(1), 2, claimed(1)),
    "settle one": Call(settle(1, "complete"), 1, claimed(1)),
    "extend one": Call(
        "select * from holdfast.extend_leases(array[%s]::text[], array[%s]::text[], 60)", 1, one_claimed
    ),
    "next_due of nothing": Call("select holdfast.next_due('{nothing}')", 1),
    "next_due of what is expired": Call("select holdfast.next_due('{stale}')", 2),
    "next_due of busy keys": Call("select holdfast.next_due('{keyed}')", 2),
    "next_due of many queues": Call(
        "select holdfast.next_due('{line,ranked,tagged,second,stale,keyed,nothing}')", 17
    ),
    "next_due with something held": Call("select holdfast.next_due('{line}')", 1, held(100)),
}
