"""A cycle is found and named at once, however many ways lead around it."""

from __future__ import annotations

import random
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import psycopg
import pytest
from psycopg import errors as pg
from psycopg.types.json import Jsonb

from tests.engine.sql import Connection, call, claim_one, column, submit

RUNGS = 40  # each doubles the ways through the ladder


def ladder(bottom: list[str]) -> dict[str, list[str]]:
    """Pairs of jobs, each of which waits for both of the pair below; the lowest wait for these."""
    waits = {f"{side}0": bottom for side in "ab"}
    for rung in range(1, RUNGS):
        waits |= {f"{side}{rung}": [f"a{rung - 1}", f"b{rung - 1}"] for side in "ab"}
    return waits


def submit_all(conn: Connection, waits: dict[str, list[str]]) -> None:
    conn.execute("set statement_timeout = '20s'")
    call(
        conn,
        "submit_jobs",
        p_job_ids=list(waits),
        p_queues=["q"] * len(waits),
        p_wait_for=[Jsonb(names) for names in waits.values()],
    )


def test_jobs_of_one_call_that_wait_for_each_other_in_many_ways_are_refused_at_once(conn: Connection) -> None:
    top = f"a{RUNGS - 1}"
    with pytest.raises(
        pg.InvalidParameterValue, match=r"wait for each other for ever: \w+ waits for \w+"
    ) as said:
        submit_all(conn, ladder([top]))
    named = named_in(said.value)
    assert named[0] == named[-1]
    assert len(set(named)) == len(named) - 1 == RUNGS


def test_a_reschedule_that_would_close_a_cycle_in_many_ways_names_one_of_them(conn: Connection) -> None:
    submit(conn, "root")
    submit_all(conn, ladder(["root"]))
    lease_id = claim_one(conn, "root")
    top = [f"a{RUNGS - 1}", f"b{RUNGS - 1}"]
    with pytest.raises(pg.InvalidParameterValue, match="would close a cycle: root waits for ") as said:
        call(
            conn,
            "reschedule_job",
            p_job_id="root",
            p_lease_id=lease_id,
            p_worker_id="w",
            p_next_need="q",
            p_wait_for=top,
        )
    named = named_in(said.value)
    assert named[0] == named[-1] == "root"
    assert named[1] in top
    assert len(named) == RUNGS + 2


@pytest.mark.parametrize("first", ["parents", "children"])
def test_a_long_chain_in_one_call_takes_time_in_proportion(conn: Connection, first: str) -> None:
    """Looked at job by job, it would take two minutes."""
    names = [f"job {place}" for place in range(10_000)]
    chain = {name: [before] if before else [] for before, name in zip(["", *names], names, strict=False)}
    submit_all(conn, chain if first == "parents" else dict(reversed(chain.items())))
    assert column(conn, "select count(*) from holdfast.jobs where waiting_on = 0") == [1]


@pytest.mark.parametrize("seed", range(60))
def test_jobs_of_one_call_are_refused_exactly_if_some_wait_for_each_other(
    conn: Connection, seed: int
) -> None:
    chance = random.Random(seed)
    names = [f"job{place}" for place in range(chance.randint(1, 9))]
    density = chance.choice([0.05, 0.1, 0.2, 0.3])
    waits = {name: [other for other in names if chance.random() < density] for name in names}
    try:
        graph = TopologicalSorter(waits)
        graph.prepare()
    except CycleError:
        with pytest.raises(pg.InvalidParameterValue, match="wait for each other for ever") as said:
            submit_all(conn, waits)
        named = named_in(said.value)
        assert named[0] == named[-1]
        assert all(parent in waits[child] for child, parent in pairwise(named))
        assert column(conn, "select count(*) from holdfast.jobs") == [0]
    else:
        submit_all(conn, waits)
        assert column(conn, "select count(*) from holdfast.jobs") == [len(names)]


def named_in(error: psycopg.Error) -> list[str]:
    """The jobs of a cycle in the order in which the message names them."""
    message = (error.diag.message_primary or "").partition(";")[0].rpartition(": ")[2]
    return message.replace(", which waits for ", " waits for ").split(" waits for ")
