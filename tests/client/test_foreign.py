"""The engine's refusals, found wherever other libraries put them."""

from __future__ import annotations

import pytest

from holdfast.client.foreign import named_sql, numbered_sql, plain_sql, refusal_in
from holdfast.errors import InvalidArgument, JobExists, SchemaMissing
from holdfast.store.call import statement

TWICE = statement("f", "job_id", p_a="text[]", p_b="jsonb")


class DriverError(Exception):
    def __init__(self, said: str, sqlstate: str | None) -> None:
        super().__init__(said)
        self.sqlstate = sqlstate


class OlderDriverError(Exception):
    pgcode = "22023"


class LibraryError(Exception):
    def __init__(self, orig: BaseException) -> None:
        super().__init__("(somewhere) something")
        self.orig = orig


def raised_from(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def test_a_refusal_is_found_below_the_library_that_wraps_it() -> None:
    found = refusal_in(LibraryError(DriverError("taken", "HF002")), "holdfast")
    assert (type(found), str(found)) == (JobExists, "taken")
    found = refusal_in(raised_from(RuntimeError("x"), OlderDriverError("bad")), "holdfast")
    assert (type(found), str(found)) == (InvalidArgument, "bad")


def test_the_words_are_those_of_the_innermost_error() -> None:
    adapted = raised_from(DriverError("<class 'X'>: taken", "HF002"), DriverError("taken", "HF002"))
    assert str(refusal_in(LibraryError(adapted), "holdfast")) == "taken"


def test_a_missing_schema_names_itself_and_the_command() -> None:
    found = refusal_in(DriverError("no schema", "3F000"), "mine")
    assert isinstance(found, SchemaMissing)
    assert 'schema "mine"' in str(found)
    assert "holdfast migrate up" in str(found)


@pytest.mark.parametrize(
    "error",
    [
        DriverError("deadlock", "40P01"),
        DriverError("lost", None),
        ValueError("else"),
        LibraryError(OSError()),
    ],
)
def test_what_concerns_the_transaction_is_left_to_its_owner(error: Exception) -> None:
    assert refusal_in(error, "holdfast") is None


def test_every_parameter_travels_as_text() -> None:
    assert plain_sql(TWICE, "s") == (
        'select job_id from "s".f(p_a => %s::text[], p_b => %s::jsonb) as answer'
    )
    assert "p_a => $1::text::text[], p_b => $2::text::jsonb" in numbered_sql(TWICE, "s")
    assert "p_a => cast(:p1 as text)::text[], p_b => cast(:p2 as text)::jsonb" in named_sql(TWICE, "s")
