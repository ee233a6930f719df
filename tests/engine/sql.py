"""Speak to the engine as any client does: its functions by name, with named arguments, over psycopg."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

Connection = psycopg.Connection[Any]
Row = dict[str, Any]
Rows = list[Row]

TABLES = (
    "jobs",
    "claims",
    "archived_jobs",
    "job_names",
    "job_waits",
    "job_errors",
    "holds",
    "resources",
    "queues",
    "settings",
    "jobs_trace",
    "workers",
    "history",
    "upkeep_progress",
)


def call(conn: Connection, function: str, /, **arguments: object) -> Rows:
    """The rows that a function of the engine answers."""
    named = SQL(", ").join(SQL("{} => %s").format(Identifier(name)) for name in arguments)
    query = SQL("select * from holdfast.{}({})").format(Identifier(function), named)
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, list(arguments.values())).fetchall()


def value(conn: Connection, function: str, /, **arguments: object) -> Any:
    """The one value that a function of the engine answers."""
    (row,) = call(conn, function, **arguments)
    (answer,) = row.values()
    return answer


def rows(conn: Connection, query: str, *parameters: object) -> Rows:
    """The rows of a query of the test's own."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), parameters or None).fetchall()


def column(conn: Connection, query: str, *parameters: object) -> list[Any]:
    """The first column of a query of the test's own."""
    return [next(iter(row.values())) for row in rows(conn, query, *parameters)]


def submit(conn: Connection, job_id: str, queue: str = "q", **more: object) -> Row:
    """Submit one job as worker "tester"."""
    (row,) = call(conn, "submit_job", p_job_id=job_id, p_worker_id="tester", p_next_need=queue, **more)
    return row


def submit_many(conn: Connection, job_ids: Iterable[str], queue: str = "q", **more: object) -> list[str]:
    """Submit several jobs in one call; the arguments in `more` are the same for each."""
    ids = list(job_ids)
    same = {name: [argument] * len(ids) for name, argument in more.items()}
    submitted = call(conn, "submit_jobs", p_job_ids=ids, p_queues=[queue] * len(ids), **same)
    return [row["job_id"] for row in submitted]


def claim(conn: Connection, queue: str = "q", worker: str = "w", limit: int = 1, **more: object) -> Rows:
    """Claim as workers do."""
    return call(conn, "claim_jobs", p_worker_id=worker, p_queues=[queue], p_limit=limit, **more)


def let_all_stay_in_line(conn: Connection) -> None:
    """Have jobs that are claimed one by one stay in line while they are held, as those of large claims do."""
    rule = "cardinality(o_ids) >= 20"
    (text,) = column(conn, "select pg_get_functiondef('holdfast._lock_next_jobs'::regproc)")
    assert text.count(rule) == 1
    conn.execute(text.replace(rule, "cardinality(o_ids) >= 1").encode())


def number_of(conn: Connection, job_id: str) -> int:
    """The number of a live job that has a name of its own."""
    (number,) = column(conn, f"select id from holdfast.job_names where name = '{job_id}'")
    assert isinstance(number, int)
    return number


def claim_one(conn: Connection, job_id: str, queue: str = "q", worker: str = "w", **more: object) -> str:
    """Claim the job at the head of a queue, which must be this one; return its lease."""
    (row,) = claim(conn, queue, worker, 1, **more)
    assert row["job_id"] == job_id
    lease_id = row["lease_id"]
    assert isinstance(lease_id, str)
    return lease_id


def submit_and_claim(
    conn: Connection, job_id: str, queue: str = "q", worker: str = "w", **more: object
) -> str:
    """Submit a job and claim it at once; return its lease."""
    submit(conn, job_id, queue, **more)
    return claim_one(conn, job_id, queue, worker)


def settle(conn: Connection, job_id: str, operation: str, lease_id: str | None = None, **more: object) -> Row:
    """Settle one job as workers do; return the verdict."""
    (verdict,) = call(
        conn,
        "settle_jobs",
        p_job_ids=[job_id],
        p_operations=[operation],
        p_lease_ids=None if lease_id is None else [lease_id],
        **more,
    )
    return verdict


def job(conn: Connection, job_id: str) -> Row:
    """A job, live or archived, with every column a reader can see."""
    (row,) = call(conn, "get_job", p_job_id=job_id)
    return row


def state(conn: Connection, job_id: str) -> str:
    return str(job(conn, job_id)["state"])


def status(conn: Connection, job_id: str) -> str:
    return str(job(conn, job_id)["status"])


def states(conn: Connection, *job_ids: str) -> list[str]:
    return [state(conn, job_id) for job_id in job_ids]


def events(conn: Connection, job_id: str | None = None) -> list[str]:
    """What the trace says happened, in order."""
    traced = rows(conn, "select job_id, event_type from holdfast.jobs_trace order by trace_id")
    return [row["event_type"] for row in traced if job_id in (None, row["job_id"])]


def trace(conn: Connection, job_id: str, event: str) -> Row:
    """The one trace row of this event."""
    (row,) = rows(
        conn, "select * from holdfast.jobs_trace where job_id = %s and event_type = %s", job_id, event
    )
    return row


def contents(conn: Connection) -> dict[str, Rows]:
    """Everything the engine has stored, to show that something changed nothing."""
    return {table: rows(conn, f"select * from holdfast.{table} order by 1, 2") for table in TABLES}


@contextmanager
def undone(conn: Connection) -> Iterator[None]:
    """Do what is inside in a transaction and roll it back: a test may try many things on one database."""
    with conn.transaction(force_rollback=True):
        yield


def refusal(act: Callable[..., object], /, *arguments: object, **named: object) -> psycopg.Error:
    """The error that an act must end in."""
    try:
        answer = act(*arguments, **named)
    except psycopg.Error as error:
        return error
    raise AssertionError(f"not refused, but answered {answer!r}")


def signals(conn: Connection) -> list[tuple[str, str]]:
    """Channel and payload of every notification that has arrived on this connection."""
    conn.execute("select 1")  # what was committed before this is delivered with its answer
    return [(notice.channel, notice.payload) for notice in conn.notifies(timeout=0)]


def listen(conn: Connection, *queues: str) -> None:
    """Listen on queues' channels, and on that of freed streams."""
    for channel in [*(f"holdfast.need.{queue}" for queue in queues), "holdfast.freed"]:
        conn.execute(SQL("listen {}").format(Identifier(channel)))
