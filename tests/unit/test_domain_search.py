"""The language of queries: what is written is what is read, and what cannot be read is explained."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.search import (
    Argument,
    Compares,
    Comparison,
    Field,
    Matches,
    Measure,
    Query,
    Term,
    Text,
    Word,
    lengths,
    parse,
    possible_states,
    with_states,
)
from holdfast.domain.search.terms import AGES
from holdfast.domain.states import JobState, Status
from holdfast.errors import QueryError

HOUR = 3_600_000

EVERYTHING = (
    "state:DEAD,STOPPED queue:mail task:send_* args.user:42 args.to.0:ada tag:eu "
    'error:"timed out" age>5m attempts>=3 -tag:test id:j4711 worker:w-* key:smtp priority<0 '
    "finished<1h30m lost"
)


def test_every_kind_of_term_is_read() -> None:
    assert parse(EVERYTHING).terms == (
        Matches(Field.STATE, (Text("DEAD"), Text("STOPPED"))),
        Matches(Field.QUEUE, (Text("mail"),)),
        Matches(Field.TASK, (Text("send_*", glob=True),)),
        Argument(("user",), (Text("42"),)),
        Argument(("to", "0"), (Text("ada"),)),
        Matches(Field.TAG, (Text("eu"),)),
        Matches(Field.ERROR, (Text("timed out"),)),
        Compares(Measure.AGE, Comparison.MORE, 300_000),
        Compares(Measure.ATTEMPTS, Comparison.AT_LEAST, 3),
        Matches(Field.TAG, (Text("test"),), negated=True),
        Matches(Field.ID, (Text("j4711"),)),
        Matches(Field.WORKER, (Text("w-*", glob=True),)),
        Matches(Field.KEY, (Text("smtp"),)),
        Compares(Measure.PRIORITY, Comparison.LESS, 0),
        Compares(Measure.FINISHED, Comparison.LESS, HOUR + HOUR // 2),
        Word(Text("lost")),
    )


def test_what_is_written_is_read_again_as_it_was() -> None:
    assert str(parse(EVERYTHING)) == EVERYTHING
    assert parse("  \t ") == Query()


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("STATE:dead", "state:DEAD"),
        ("status:crash_concern", "status:CRASH_CONCERN"),
        ("created<1.5h", "age<1h30m"),
        ("ended>120s", "finished>2m"),
        ("attempts=3", "attempts:3"),
        ("tag:a,a,b", "tag:a,b"),
        ('"plain"', "plain"),
        ('error:"a*b"', 'error:"a*b"'),
        ('-"-tag:eu"', '-"-tag:eu"'),
    ],
)
def test_there_is_one_way_to_write_each_query(written: str, same: str) -> None:
    assert str(parse(written)) == same


@pytest.mark.parametrize(
    ("query", "piece", "position", "says"),
    [
        ("queue:mail quue:mail", "quue:mail", 11, "did you mean queue?"),
        ("http://host/x", "http://host/x", 0, "put it in quotes"),
        ("state:DAED", "state:DAED", 0, "did you mean DEAD?"),
        ("state:", "state:", 0, "a value is missing"),
        ("tag:a,", "tag:a,", 0, "a value is missing"),
        ("age>5", "age>5", 0, "age>90s, 5m, 1h30m, 2d"),
        ("age>", "age>", 0, "write a duration"),
        ("age>99999w", "age>99999w", 0, "write a duration"),
        ("age:5m", "age:5m", 0, "age> or age<"),
        ("attempts>=many", "attempts>=many", 0, "attempts>=3"),
        ("attempts:1234567890", "attempts:1234567890", 0, "whole number"),
        ("queue>mail", "queue>mail", 0, "queue:"),
        ('error:"timed out', 'error:"timed', 0, "never closed"),
        ('error:"timed"out', 'error:"timed"out', 0, "closing quote"),
        ('tim"ed', 'tim"ed', 0, "a quote stands within"),
        ("args:42", "args:42", 0, "args.user:42"),
        ("args..a:42", "args..a:42", 0, "args.user:42"),
        ("a -", "-", 2, "a word is missing"),
        ("a\0b", "\0", 1, "U+0000"),
        ("queue.x:1", "queue.x:1", 0, "there is no field"),
    ],
)
def test_an_error_names_the_piece_its_place_and_what_is_right(
    query: str, piece: str, position: int, says: str
) -> None:
    with pytest.raises(QueryError, match=re.escape(says)) as raised:
        parse(query)
    assert (raised.value.piece, raised.value.position) == (piece, position)
    assert f"at character {position + 1}" in str(raised.value)


def test_a_query_has_an_end() -> None:
    with pytest.raises(QueryError, match="at most 30 terms"):
        parse("a " * 31)
    with pytest.raises(QueryError, match=r"2,000 are read"):
        parse("a" * 2001)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_by_a_query_error(text: str) -> None:
    try:
        query = parse(text)
    except QueryError:
        return
    assert parse(str(query)) == query


@given(
    st.lists(
        st.sampled_from(['"', ":", "-", "*", ",", "\\", " ", "age", "args.a", "tag", ">", "5m", "=", "x"])
    )
)
def test_any_mixture_of_signs_is_read_or_refused_by_a_query_error(pieces: list[str]) -> None:
    try:
        query = parse("".join(pieces))
    except QueryError:
        return
    assert parse(str(query)) == query


# Text that a job can have; a glob must not hold what ends a bare value.
_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
_SAFE = st.from_regex(r"[a-z0-9_./-]{0,5}\*[a-z0-9_*]{0,5}", fullmatch=True)
_VALUE = st.builds(Text, _TEXT) | st.builds(lambda text: Text(text, glob=True), _SAFE)
_NAMED = {Field.STATE: tuple(JobState), Field.STATUS: tuple(Status)}


def _values(value: st.SearchStrategy[Text]) -> st.SearchStrategy[tuple[Text, ...]]:
    return st.lists(value, min_size=1, max_size=3, unique=True).map(tuple)


def _matches(field: Field) -> st.SearchStrategy[Term]:
    value = st.sampled_from([Text(word.value) for word in _NAMED[field]]) if field in _NAMED else _VALUE
    return st.builds(Matches, st.just(field), _values(value), st.booleans())


def _compares(measure: Measure) -> st.SearchStrategy[Term]:
    ages = measure in AGES
    signs = [how for how in Comparison if not ages or how is not Comparison.EQUAL]
    amounts = st.integers(0, lengths.LONGEST_MS) if ages else st.integers(-999_999_999, 999_999_999)
    return st.builds(Compares, st.just(measure), st.sampled_from(signs), amounts, st.booleans())


_PATH = st.lists(st.from_regex(r"[A-Za-z0-9_$ü-]{1,6}", fullmatch=True), min_size=1, max_size=3).map(tuple)
_TERM: st.SearchStrategy[Term] = st.one_of(
    st.sampled_from(Field).flatmap(_matches),
    st.sampled_from(Measure).flatmap(_compares),
    st.builds(Argument, _PATH, _values(_VALUE), st.booleans()),
    st.builds(Word, st.builds(Text, _TEXT), st.booleans()),
)


QUERIES = st.lists(_TERM, max_size=6).map(lambda terms: Query(tuple(terms)))


@given(QUERIES)
def test_every_query_survives_being_written_and_read(query: Query) -> None:
    assert parse(str(query)) == query


@given(st.integers(0, lengths.LONGEST_MS))
def test_every_duration_survives_being_written_and_read(milliseconds: int) -> None:
    assert lengths.read(lengths.written(milliseconds)) == milliseconds


def test_states_that_are_possible_follow_from_the_query() -> None:
    assert possible_states(parse("queue:mail")) == frozenset(JobState)
    assert possible_states(parse("state:DEAD,RUNNING -state:RUNNING")) == {JobState.DEAD}
    assert possible_states(with_states(parse("state:DEAD"), [JobState.RUNNING])) == frozenset()
