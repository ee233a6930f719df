"""What is written as an array literal is what PostgreSQL reads."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument
from holdfast.store import arrays

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
MANY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(conn: psycopg.Connection[Any], literal: str | None, kind: str) -> list[Any]:
    row = conn.execute(f"select %s::{kind}".encode(), [literal], binary=True).fetchone()
    assert row is not None
    values: list[Any] = row[0]
    return values


@MANY
@given(
    items=st.lists(
        st.none() | TEXTS | st.sampled_from(['"', "\\", "NULL", "null", "", " ", "{}", "a,b", "\n"])
    )
)
def test_texts_are_read_as_they_were_written(conn: psycopg.Connection[Any], items: list[str | None]) -> None:
    assert read(conn, arrays.of_texts(items, "items"), "text[]") == items


@MANY
@given(items=st.lists(st.none() | st.binary(), min_size=1))
def test_bytes_are_read_as_they_were_written(
    conn: psycopg.Connection[Any], items: list[bytes | None]
) -> None:
    written = arrays.of_bytes(items)

    assert (read(conn, written, "bytea[]") if written else [None] * len(items)) == items


@MANY
@given(items=st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), min_size=1))
def test_numbers_are_read_as_they_were_written(
    conn: psycopg.Connection[Any], items: list[float | None]
) -> None:
    written = arrays.of_numbers(items)

    assert (read(conn, written, "double precision[]") if written else [None] * len(items)) == items


@MANY
@given(items=st.lists(st.datetimes(timezones=st.just(UTC)) | st.none(), min_size=1))
def test_moments_are_read_as_they_were_written(
    conn: psycopg.Connection[Any], items: list[datetime | None]
) -> None:
    written = arrays.of_moments(items)

    assert (read(conn, written, "timestamptz[]") if written else [None] * len(items)) == items


def test_flags_are_read_as_they_were_written(conn: psycopg.Connection[Any]) -> None:
    items = [random.random() < 0.5 for _ in range(20)] + [True]

    assert read(conn, arrays.of_flags(items), "boolean[]") == items


def test_no_element_is_an_empty_array() -> None:
    assert arrays.of_texts([], "items") == "{}"


def test_a_column_that_says_nothing_is_not_written() -> None:
    assert arrays.of_json([None, None], "items") is None
    assert arrays.of_bytes([None]) is None
    assert arrays.of_numbers([None]) is None
    assert arrays.of_moments([None]) is None
    assert arrays.of_flags([False, False]) is None


@pytest.mark.parametrize("item", ["a\0b", "\0", "\ud800", "x\udfff"])
def test_a_text_that_cannot_be_stored_is_refused_by_the_name_of_its_parameter(item: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^lease_id holds"):
        arrays.of_texts(["fine", item], "lease_id")


def test_something_that_is_no_text_is_refused_by_the_name_of_its_parameter() -> None:
    with pytest.raises(InvalidArgument, match=r"^job_id must be texts: 7 is not"):
        arrays.of_texts(["fine", 7], "job_id")  # type: ignore[list-item]
