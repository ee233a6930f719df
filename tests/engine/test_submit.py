"""A plain job takes a short way, others the long one through submit_jobs; nobody can tell which it took."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.engine.sql import (
    Connection,
    call,
    claim_one,
    column,
    events,
    listen,
    refusal,
    rows,
    settle,
    signals,
    submit,
    undone,
    value,
)

Arrays = dict[str, list[Any]]

LONG_WAY: Arrays = {"p_priorities": [0]}
"""Says what is so anyway, but says it."""

WAYS = pytest.mark.parametrize("way", [{}, LONG_WAY], ids=["short", "long"])


SCALARS = {
    "p_job_ids": "p_job_id",
    "p_queues": "p_queue",
    "p_payloads": "p_payload",
    "p_tasks": "p_task",
}
"""What submit_plain_job takes, by what submit_jobs calls it."""


def submitted_by_itself(conn: Connection, arrays: Mapping[str, Sequence[object]]) -> str:
    said = {SCALARS[name]: only for name, (only,) in arrays.items()}
    return str(value(conn, "submit_plain_job", **said))


def stored(
    conn: Connection, arrays: Mapping[str, Sequence[object]], *, by_itself: bool = False
) -> list[dict[str, Any]]:
    """All that the call stores, and what it answers, without numbers and times."""
    with undone(conn):
        if by_itself:
            job_id = submitted_by_itself(conn, arrays)
        else:
            (answer,) = call(conn, "submit_jobs", **arrays)
            assert answer["available_at"] == column(conn, "select available_at from holdfast.jobs")[0]
            job_id = answer["job_id"]
        found = [
            *rows(conn, "select * from holdfast.jobs"),
            *rows(conn, "select * from holdfast.job_names"),
            {"answer": re.sub(r"^j\d+$", "j<number>", job_id)},
        ]
    passing = ("id", "available_at", "created_at")
    return [{name: kept for name, kept in row.items() if name not in passing} for row in found]


@pytest.mark.parametrize(
    "arrays",
    [
        {"p_queues": ["q"]},
        {"p_queues": ["q"], "p_tasks": ["mail"], "p_payloads": [Jsonb({"to": ["ada"]})]},
        {"p_queues": ["q"], "p_job_ids": ["mine"], "p_payloads": [Jsonb(None)]},
        {"p_queues": ["q"], "p_job_ids": [None], "p_tasks": [None], "p_payloads": [None]},
        {"p_queues": [None], "p_tasks": ["mail"]},
        {"p_queues": ["q" * 40], "p_job_ids": ["x" * 1000]},
    ],
)
def test_both_ways_store_and_answer_the_same(conn: Connection, arrays: Arrays) -> None:
    assert stored(conn, arrays) == stored(conn, arrays | LONG_WAY) == stored(conn, arrays, by_itself=True)


@WAYS
def test_a_job_is_signalled_on_both_ways(conn: Connection, way: Arrays) -> None:
    listen(conn, "q")

    call(conn, "submit_jobs", p_job_ids=["mine"], p_queues=["q"], **way)

    assert signals(conn) == [("holdfast.need.q", "mine")]


def test_a_job_submitted_by_itself_is_signalled(conn: Connection) -> None:
    listen(conn, "q")

    submitted_by_itself(conn, {"p_job_ids": ["mine"], "p_queues": ["q"]})

    assert signals(conn) == [("holdfast.need.q", "mine")]


def test_a_job_submitted_by_itself_is_traced_when_all_is(conn: Connection) -> None:
    value(conn, "set_trace_level", p_level="all")

    submitted_by_itself(conn, {"p_job_ids": ["mine"], "p_queues": ["q"]})

    assert events(conn, "mine") == ["job_submitted"]


@WAYS
def test_no_job_is_signalled_when_signals_are_off(conn: Connection, way: Arrays) -> None:
    listen(conn, "q")
    value(conn, "set_notify", p_enabled=False)

    call(conn, "submit_jobs", p_job_ids=["mine"], p_queues=["q"], **way)

    assert signals(conn) == []


@WAYS
@pytest.mark.parametrize(("level", "said"), [("all", ["job_submitted"]), ("exceptions", []), ("off", [])])
def test_a_submission_is_traced_when_all_is(
    conn: Connection, way: Arrays, level: str, said: list[str]
) -> None:
    value(conn, "set_trace_level", p_level=level)

    call(conn, "submit_jobs", p_job_ids=["mine"], p_queues=["q"], **way)

    assert events(conn, "mine") == said


@WAYS
def test_an_id_that_is_taken_is_refused_and_leaves_nothing(conn: Connection, way: Arrays) -> None:
    submit(conn, "done")
    settle(conn, "done", "complete", claim_one(conn, "done"))
    submit(conn, "live")
    for taken, words in (("live", "already exists (INITIAL_PENDING)"), ("done", "has already completed")):
        error = refusal(call, conn, "submit_jobs", p_job_ids=[taken], p_queues=["q"], **way)
        assert (error.sqlstate, words in str(error)) == ("HF002", True)
    # Not even a row that vacuum would have to take away: people submit the same id again to be sure.
    submit(conn, "next")
    places = column(conn, "select (ctid::text::point)[1]::integer from holdfast.jobs order by id")
    assert places[1] == places[0] + 1


FLAWS: list[tuple[str, Any, str]] = [
    ("p_job_ids", "", "the id is empty"),
    ("p_job_ids", "j7", "ids of the form j<number>"),
    ("p_job_ids", "x" * 1001, "more than 1000 bytes"),
    ("p_queues", "", "the queue name is empty"),
    ("p_queues", "q" * 41, "has 41 bytes; at most 40 fit"),
    ("p_tasks", "", "the task name is empty"),
    ("p_singleton_keys", "", "the singleton key is empty"),
    ("p_max_attempts", 0, "max_attempts must be at least 1, not 0"),
    ("p_delays", -1.0, "the delay must be 0 to a billion seconds, not -1"),
    ("p_delays", nan, "the delay must be 0 to a billion seconds, not NaN"),
    ("p_delays", 1.1e9, "the delay must be 0 to a billion seconds"),
    ("p_timeouts", 0.0, "the timeout must be more than 0, not 0"),
    ("p_timeouts", -5e-324, "the timeout must be more than 0"),
    ("p_timeouts", nan, "the timeout must be more than 0, not NaN"),
    ("p_timeouts", inf, "the timeout must be more than 0, not Infinity"),
    ("p_if_parent_fails", "jump", 'if_parent_fails must be wait, cancel or run, not "jump"'),
    ("p_available_at", "infinity", "available_at must be finite"),
    ("p_available_at", "-infinity", "available_at must be finite"),
    ("p_created_at", "-infinity", "created_at must be finite"),
    ("p_payload_bytes", b"x" * 2000, "the payload has 2000 bytes; at most 1000 are allowed"),
    ("p_payloads", Jsonb("x" * 999), "the payload has 1001 bytes of JSON; at most 1000 are allowed"),
]
TYPES = {"p_delays": "double precision[]", "p_available_at": "timestamptz[]", "p_created_at": "timestamptz[]"}


@pytest.mark.parametrize(("parameter", "wrong", "words"), FLAWS)
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_flaw_is_found_in_one_job_and_in_the_last_of_many(
    conn: Connection, parameter: str, wrong: Any, words: str, jobs: int
) -> None:
    conn.execute("update holdfast.settings set payload_bytes = 1000")
    kind = TYPES.get(parameter, "")
    given = f"%s{'::' + kind if kind else ''}"
    arguments: list[Any] = [[None] * (jobs - 1) + [wrong]]
    queues = "" if parameter == "p_queues" else f", p_queues => array_fill('q'::text, array[{jobs}])"

    error = refusal(
        rows, conn, f"select * from holdfast.submit_jobs({parameter} => {given}{queues})", *arguments
    )

    who = f"job number {jobs} of the call" if parameter != "p_job_ids" else f'job "{wrong[:200]}"'
    assert error.sqlstate == "22023"
    assert words in str(error)
    assert f"({who}); nothing was stored" in str(error)
    assert column(conn, "select count(*) from holdfast.jobs") == [0]


@pytest.mark.parametrize(("parameter", "wrong", "words"), [flaw for flaw in FLAWS if flaw[0] in SCALARS])
def test_a_flaw_is_found_in_a_job_submitted_by_itself(
    conn: Connection, parameter: str, wrong: Any, words: str
) -> None:
    conn.execute("update holdfast.settings set payload_bytes = 1000")

    error = refusal(submitted_by_itself, conn, {parameter: [wrong]})

    assert (error.sqlstate, words in str(error)) == ("22023", True)
    assert column(conn, "select count(*) from holdfast.jobs") == [0]


def test_what_only_looks_suspicious_is_taken(conn: Connection) -> None:
    conn.execute("update holdfast.settings set payload_bytes = 1000")
    call(
        conn,
        "submit_jobs",
        p_queues=["q", "q"],
        p_payloads=[Jsonb("x" * 998), None],
        p_timeouts=[None, 5e-324],
    )
    call(conn, "submit_jobs", p_queues=["q"], p_payloads=[Jsonb("x" * 998)])

    assert column(conn, "select count(*) from holdfast.jobs") == [3]


def test_a_call_of_many_named_jobs_takes_time_in_proportion(conn: Connection) -> None:
    """Where a subscript reads all that stands before it, this call takes half a minute."""
    many = 20_000
    conn.execute("set statement_timeout = '15s'")
    submitted = call(
        conn,
        "submit_jobs",
        p_job_ids=[f"job {place}" for place in range(many)],
        p_queues=["q"] * many,
        p_tasks=["task"] * many,
    )
    assert [row["job_id"] for row in submitted] == [f"job {place}" for place in range(many)]
    numbered = "select array_agg(name order by id) = %s from holdfast.jobs"
    assert column(conn, numbered, [row["job_id"] for row in submitted]) == [True]
