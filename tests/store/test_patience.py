"""How often a call is tried, how long it waits in between, and what it says when it gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from holdfast.domain.outcome import Completed, Failed
from holdfast.errors import DatabaseUnavailable, HoldfastError, PayloadError
from holdfast.store import Call
from holdfast.store.calls import operating, settling, submitting
from holdfast.store.pacing import LONGEST_S, Pacing
from holdfast.store.sqlstates import DeadlinePassed
from holdfast.store.trial import CONFLICTS, Trial, changed_nothing

READ = operating.trace_level()
WRITE = submitting.submit_jobs([])
SETTLE = settling.settle_jobs([("j1", "lease", Completed("ü")), ("j2", "lease", Failed("ü", "ü"))])


def trial(call: Call[Any], timeout_s: float = 10.0) -> Trial[Any]:
    return Trial(call, 100.0, timeout_s, place="host=here", schema="holdfast")


def an_error(sqlstate: str | None, kind: type[psycopg.Error] = psycopg.OperationalError) -> psycopg.Error:
    raised = type("Raised", (kind,), {"sqlstate": sqlstate})("words of the server")
    assert isinstance(raised, psycopg.Error)
    return raised


def test_collisions_are_repeated_so_often_and_no_more() -> None:
    calm = trial(WRITE)

    pauses = [calm.after(an_error("40001"), 100.0) for _ in range(CONFLICTS)]

    assert all(0 <= pause <= 0.5 for pause in pauses)
    with pytest.raises(DatabaseUnavailable, match=f"tried {CONFLICTS + 1} times"):
        calm.after(an_error("40001"), 100.0)


def test_a_call_that_gives_way_is_not_repeated_and_leaves_nothing_in_doubt() -> None:
    with pytest.raises(DatabaseUnavailable) as raised:
        trial(replace(WRITE, gives_way=True)).after(an_error("55P03"), 100.1)

    assert changed_nothing(raised.value)
    assert "not known" not in str(raised.value)


@pytest.mark.parametrize("error", [an_error("57P01"), an_error(None), DeadlinePassed("no answer in time")])
def test_what_leaves_a_write_in_doubt_may_have_changed_something(error: psycopg.Error) -> None:
    with pytest.raises(DatabaseUnavailable) as raised:
        trial(WRITE).after(error, 100.5)

    assert not changed_nothing(raised.value)


def test_a_lost_connection_is_replaced_for_a_read_until_the_deadline() -> None:
    patient = trial(READ)
    for _ in range(50):
        patient.after(an_error("57P01"), 101.0)

    with pytest.raises(
        DatabaseUnavailable, match=r"trace_level gave up on host=here after 10\.0 s, tried 52 times"
    ):
        patient.after(an_error(None), 110.0)


@pytest.mark.parametrize("error", [an_error("57P01"), an_error(None), an_error("08006")])
def test_a_lost_connection_leaves_a_write_in_doubt(error: psycopg.Error) -> None:
    with pytest.raises(DatabaseUnavailable, match="It is not known whether it took effect"):
        trial(WRITE).after(error, 100.5)


def test_a_deadline_leaves_a_write_in_doubt_and_a_settle_under_leases_not() -> None:
    with pytest.raises(DatabaseUnavailable, match="not known"):
        trial(WRITE).after(DeadlinePassed("no answer in time"), 110.0)
    with pytest.raises(DatabaseUnavailable) as raised:
        trial(SETTLE).after(DeadlinePassed("no answer in time"), 110.0)

    assert "not known" not in str(raised.value)


@pytest.mark.parametrize("sqlstate", ["53100", "57014"])
def test_what_the_server_says_has_failed_leaves_nothing_in_doubt(sqlstate: str) -> None:
    with pytest.raises(DatabaseUnavailable) as raised:
        trial(WRITE).after(an_error(sqlstate), 100.0)

    assert "words of the server" in str(raised.value)
    assert "not known" not in str(raised.value)


def test_a_write_to_a_server_that_only_reads_is_tried_on_the_next() -> None:
    assert trial(WRITE).after(an_error("25006"), 100.0) < 1


def test_statements_are_unprepared_once() -> None:
    behind_a_pooler = trial(WRITE)

    assert behind_a_pooler.after(an_error("26000"), 100.0) == 0
    with pytest.raises(HoldfastError):
        behind_a_pooler.after(an_error("26000"), 100.0)


def test_a_settle_refused_for_its_content_is_tried_once_with_less() -> None:
    settling_anyway = trial(SETTLE)

    assert settling_anyway.after(an_error("22P05"), 100.0) == 0
    assert "ü" not in "".join(str(each) for each in settling_anyway.call.parameters)
    assert settling_anyway.call.parameters[:3] == SETTLE.parameters[:3]
    with pytest.raises(PayloadError):
        settling_anyway.after(an_error("22P05"), 100.0)


def test_a_submit_refused_for_its_content_is_not_tried_with_less() -> None:
    with pytest.raises(PayloadError, match="22P05"):
        trial(WRITE).after(an_error("22P05"), 100.0)


def fail(pacing: Pacing, times: int) -> None:
    for _ in range(times):
        with pytest.raises(psycopg.OperationalError), pacing.attempt():
            raise psycopg.OperationalError("connection\n refused")


@pytest.mark.parametrize("chance", [lambda: 0.0, lambda: 0.5, lambda: 1.0])
def test_attempts_to_connect_become_rarer_while_they_fail(chance: Callable[[], float]) -> None:
    pacing = Pacing(chance)
    assert pacing.pause_s() == 0
    limits = []
    for _ in range(100):
        fail(pacing, 1)
        limits.append(pacing.pause_s())

    assert limits == sorted(limits)
    assert limits[-1] == chance() * LONGEST_S

    with pacing.attempt():
        pass
    assert pacing.pause_s() == 0


def test_the_obstacle_is_what_the_last_attempt_ran_into() -> None:
    pacing = Pacing()
    assert pacing.obstacle() == "every connection is in use"

    with pacing.attempt():
        assert pacing.obstacle() == "the server does not answer"
    fail(pacing, 2)
    assert pacing.obstacle() == "connection refused (tried 2 times)"


def test_no_attempt_begins_after_closing() -> None:
    pacing = Pacing()
    pacing.close()

    with pytest.raises(psycopg.OperationalError, match="closed"), pacing.attempt():
        pytest.fail("began")
