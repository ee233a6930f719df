"""Both stores have the same methods, and together with the engine's functions there is nothing left over."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import psycopg
import pytest

from holdfast.store import Store, StoreOnConnection, SyncStore, SyncStoreOnConnection
from holdfast.store.async_calls import AsyncCalls
from holdfast.store.base import Sql
from holdfast.store.call import Statement
from holdfast.store.calls import (
    cancelling,
    claiming,
    leasing,
    operating,
    reading,
    settling,
    submitting,
    verbs,
)
from holdfast.store.sync_calls import SyncCalls

MODULES = (cancelling, claiming, leasing, operating, reading, settling, submitting, verbs)


def statements() -> list[Statement]:
    return [value for module in MODULES for value in vars(module).values() if isinstance(value, Statement)]


def describers(module: ModuleType) -> list[str]:
    """The functions of a module that describe a call."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return [
        name
        for name, function in functions
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and str(inspect.signature(function).return_annotation).startswith("Call[")
    ]


def public_methods(face: type) -> dict[str, Callable[..., Any]]:
    return {
        name: function
        for name, function in inspect.getmembers(face, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("asynchronous", "blocking"),
    [(AsyncCalls, SyncCalls), (Store, SyncStore), (StoreOnConnection, SyncStoreOnConnection)],
)
def test_both_stores_have_the_same_methods_with_the_same_arguments(
    asynchronous: type, blocking: type
) -> None:
    ours, theirs = public_methods(asynchronous), public_methods(blocking)

    def shape(method: Callable[..., Any]) -> str:
        text = str(inspect.signature(method))
        return text.replace("SyncStore", "Store").replace("AsyncConnection", "Connection")

    assert {name: shape(each) for name, each in ours.items()} == {
        name: shape(each) for name, each in theirs.items()
    }


def test_every_call_of_the_asynchronous_store_is_a_coroutine_and_none_of_the_other() -> None:
    assert {
        name for name, each in public_methods(Store).items() if not inspect.iscoroutinefunction(each)
    } == {"using"}
    assert not [name for name, each in public_methods(SyncStore).items() if inspect.iscoroutinefunction(each)]


def test_every_described_call_is_a_method() -> None:
    described = {name for module in MODULES for name in describers(module)}

    assert described == {statement.function for statement in statements()}
    assert described <= set(public_methods(Store))


def test_every_method_says_what_it_promises() -> None:
    assert [name for name, method in public_methods(Store).items() if not inspect.getdoc(method)] == []


def test_every_call_can_have_a_deadline_of_its_own() -> None:
    described = {name for module in MODULES for name in describers(module)}
    methods = public_methods(Store)

    assert [
        name for name in described if "timeout_s" not in inspect.signature(methods[name]).parameters
    ] == []


def test_every_public_function_of_the_engine_is_called(conn: psycopg.Connection[Any]) -> None:
    rows = conn.execute(
        "select proname from pg_proc where pronamespace = 'holdfast'::regnamespace and proname !~ '^_'"
    ).fetchall()

    assert {name for (name,) in rows} == {statement.function for statement in statements()}


@pytest.mark.parametrize("statement", statements(), ids=lambda statement: statement.function)
def test_the_engine_understands_the_statement(conn: psycopg.Connection[Any], statement: Statement) -> None:
    text = Sql("holdfast").of(statement).decode()
    for place in range(1, text.count("%s") + 1):
        text = text.replace("%s", f"${place}", 1)

    conn.execute(f"prepare understood as {text}".encode())


@pytest.mark.parametrize("statement", statements(), ids=lambda statement: statement.function)
def test_every_parameter_of_the_function_is_passed(
    conn: psycopg.Connection[Any], statement: Statement
) -> None:
    row = conn.execute(
        "select proargnames[:pronargs] from pg_proc "
        "where pronamespace = 'holdfast'::regnamespace and proname = %s",
        [statement.function],
    ).fetchone()
    assert row is not None

    assert [name for name in row[0] or [] if f"{name} => " not in statement.sql] == []


def test_the_signature_shown_is_that_of_the_method() -> None:
    shown = inspect.signature(SyncStore.claim_jobs)

    assert [*shown.parameters][:3] == ["self", "worker_id", "queues"]
    assert shown.return_annotation == "list[ClaimedJob]"
