"""Every error of the database leads to one action, and no error of the engine loses its words."""

from __future__ import annotations

from typing import Any

import psycopg
import psycopg.errors
import psycopg_pool
import pytest

from holdfast.errors import (
    DatabaseUnavailable,
    HoldfastError,
    InvalidArgument,
    JobExists,
    JobNotFound,
    LeaseLost,
    PayloadError,
    ResourceBusy,
    SchemaMissing,
    WrongState,
)
from holdfast.store import Action, action_for
from holdfast.store.sqlstates import DeadlinePassed, refusal

POLICY = {
    Action.RECONNECT: ["08000", "08003", "08006", "57P01", "57P02", "57P03", "57P05", "25P03", "40003"],
    Action.FAIL_OVER: ["25006"],
    Action.BACK_OFF: ["53000", "53100", "53200", "53300", "53400", "58030"],
    Action.RETRY: ["40001", "40P01", "55P03"],
    Action.SHRINK: ["57014"],
    Action.SANITISE: ["22P05", "22P02", "22021", "22003", "54000", "54001"],
    Action.UNPREPARE: ["26000", "42P05"],
    Action.MIGRATE: ["42P01", "3F000", "42883"],
    Action.OUR_BUG: ["23505", "23514", "42601", "42703", "42501", "XX000", "P0001", "0A000"],
    Action.REFUSE: ["HF001", "HF002", "HF003", "HF004", "HF005", "22023"],
}


def an_error(sqlstate: str) -> psycopg.Error:
    class Raised(psycopg.Error):
        pass

    Raised.sqlstate = sqlstate
    return Raised("words")


@pytest.mark.parametrize(
    ("sqlstate", "action"), [(code, action) for action, codes in POLICY.items() for code in codes]
)
def test_the_policy_names_one_action_for_every_code(sqlstate: str, action: Action) -> None:
    assert action_for(an_error(sqlstate)) is action


def test_every_action_is_in_the_policy() -> None:
    assert set(POLICY) == set(Action)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection failed: refused"),
        psycopg.OperationalError("server closed the connection unexpectedly"),
        psycopg.InterfaceError("the connection is closed"),
        psycopg_pool.PoolTimeout("no connection"),
        ConnectionResetError(),
        EOFError(),
    ],
)
def test_a_connection_that_is_gone_is_to_be_made_anew(error: BaseException) -> None:
    assert action_for(error) is Action.RECONNECT


@pytest.mark.parametrize("error", [DeadlinePassed(), TimeoutError()])
def test_what_took_too_long_is_to_be_asked_in_smaller_pieces(error: BaseException) -> None:
    assert action_for(error) is Action.SHRINK


def test_an_error_of_ours_leads_to_the_action_of_its_cause() -> None:
    error = DatabaseUnavailable("no answer")
    error.__cause__ = an_error("53300")

    assert action_for(error) is Action.BACK_OFF


def test_an_error_of_ours_without_a_cause_is_a_refusal() -> None:
    assert action_for(InvalidArgument("limit")) is Action.REFUSE


def test_anything_else_is_our_bug() -> None:
    assert action_for(KeyError("x")) is Action.OUR_BUG


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("HF001", JobNotFound),
        ("HF002", JobExists),
        ("HF003", WrongState),
        ("HF004", LeaseLost),
        ("HF005", ResourceBusy),
        ("22023", InvalidArgument),
        ("22P05", PayloadError),
    ],
)
def test_a_refusal_of_the_engine_keeps_its_words(
    conn: psycopg.Connection[Any], sqlstate: str, kind: type[HoldfastError]
) -> None:
    statement = f"do $$ begin raise exception 'job \"a\" is not there' using errcode = '{sqlstate}'; end $$"
    with pytest.raises(psycopg.Error) as raised:
        conn.execute(statement.encode())

    refused = refusal(raised.value, "holdfast")

    assert type(refused) is kind
    assert 'job "a" is not there' in str(refused)


@pytest.mark.parametrize("sqlstate", ["3F000", "42P01", "42883"])
def test_a_missing_schema_says_which_command_installs_it(sqlstate: str) -> None:
    refused = refusal(an_error(sqlstate), "jobs_of_mine")

    assert isinstance(refused, SchemaMissing)
    assert "jobs_of_mine" in str(refused)
    assert str(refused).endswith("Run: holdfast migrate up --schema jobs_of_mine")


@pytest.mark.parametrize("sqlstate", ["40001", "57P01", "53100", "57014", "25006", "23505"])
def test_what_is_not_the_callers_doing_is_no_refusal(sqlstate: str) -> None:
    assert refusal(an_error(sqlstate), "holdfast") is None
