"""Arguments and results go through JSON and come back as their annotations say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.content import encode_json
from holdfast.errors import PayloadError, UndecodableArguments, UndecodableResult
from holdfast.tasks.calls import CallShape, encode_return

if TYPE_CHECKING:
    from fractions import Fraction


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal
    at: datetime | None = None


class Order(msgspec.Struct):
    number: UUID
    lines: list[Line]


class Point(NamedTuple):
    x: int
    y: float


class Address(TypedDict):
    city: str
    since: date


class FakeModel:
    """Has what pydantic's models have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def model_dump(self, mode: str) -> dict[str, str]:
        assert mode == "json"
        return {"name": self.name}

    @classmethod
    def model_validate(cls, content: Any) -> FakeModel:
        return cls(content["name"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeModel) and other.name == self.name

    __hash__ = None  # type: ignore[assignment]


def through_json(shape: CallShape, *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Encode, write, read and decode, as the database would."""
    return shape.decode(json.loads(encode_json(shape.encode(args, kwargs))))


def shape_of(fn: Callable[..., Any], *, context: bool = False) -> CallShape:
    return CallShape(fn, "shop.task", context=context)


def takes(annotation: Any) -> CallShape:
    def handler(value: Any) -> None: ...

    handler.__annotations__ = {"value": annotation}
    return shape_of(handler)


moments = st.datetimes(timezones=st.sampled_from([UTC]))
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
prices = st.decimals(allow_nan=False, allow_infinity=False)
KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, texts),
    (datetime, moments),
    (datetime, st.datetimes()),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas(timedelta(days=-10000), timedelta(days=10000))),
    (UUID, st.uuids()),
    (Decimal, prices),
    (bytes, st.binary()),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (Line, st.builds(Line, texts, prices, st.none() | moments)),
    (Order, st.builds(Order, st.uuids(), st.lists(st.builds(Line, texts, prices), max_size=3))),
    (Point, st.builds(Point, st.integers(), st.floats(-1e9, 1e9))),
    (tuple[int, str], st.tuples(st.integers(), texts)),
    (tuple[datetime, ...], st.lists(moments, max_size=3).map(tuple)),
    (set[int], st.sets(st.integers())),
    (frozenset[UUID], st.frozensets(st.uuids(), max_size=3)),
    (list[Colour | None], st.lists(st.none() | st.sampled_from(Colour))),
    (dict[int, Decimal], st.dictionaries(st.integers(-1000, 1000), prices, max_size=3)),
    (dict[str, list[bytes]], st.dictionaries(texts, st.lists(st.binary(), max_size=2), max_size=3)),
    (Mapping[str, int], st.dictionaries(texts, st.integers(), max_size=3)),
    (Sequence[date], st.lists(st.dates(), max_size=3)),
    (Address, st.fixed_dictionaries({"city": texts, "since": st.dates()})),
    (datetime | None, st.none() | moments),
    (Path, st.sampled_from([Path("a/b"), Path("/")])),
    (FakeModel, st.builds(FakeModel, texts)),
]


@pytest.mark.parametrize(("annotation", "values"), KINDS, ids=lambda each: str(each)[:40])
def test_what_the_annotation_says_is_what_arrives(annotation: Any, values: st.SearchStrategy[Any]) -> None:
    shape = takes(annotation)

    @settings(max_examples=60, deadline=None)
    @given(values)
    def check(value: Any) -> None:
        ((found,), _) = through_json(shape, value)
        assert found == value
        assert type(found) is type(value)

    check()


@pytest.mark.parametrize(("annotation", "values"), KINDS, ids=lambda each: str(each)[:40])
def test_results_come_back_by_the_return_annotation(annotation: Any, values: st.SearchStrategy[Any]) -> None:
    def handler() -> None: ...

    handler.__annotations__ = {"return": annotation}
    shape = shape_of(handler)

    @settings(max_examples=30, deadline=None)
    @given(values)
    def check(value: Any) -> None:
        stored = encode_return(value, "shop.task")
        stored = stored if isinstance(stored, bytes) else json.loads(encode_json(stored))
        assert shape.decode_result(stored) == value

    check()


def test_what_has_no_annotation_arrives_as_plain_json() -> None:
    def handler(a, b=None, *rest, c: Any = 1, **more): ...  # type: ignore[no-untyped-def]

    args, kwargs = through_json(
        shape_of(handler), (1, 2), {3}, date(2026, 1, 2), c={4: b"x"}, d=Decimal("1.5")
    )
    assert args == [[1, 2], [3], "2026-01-02"]
    assert kwargs == {"c": {"4": "eA=="}, "d": "1.5"}


def test_each_of_many_arguments_has_the_annotation_of_their_name() -> None:
    def handler(first: int, /, *when: date, last: Decimal, **prices: Decimal) -> None: ...

    args, kwargs = through_json(shape_of(handler), 1, date.min, date.max, last=Decimal(1), x=Decimal(2))
    assert args == [1, date.min, date.max]
    assert kwargs == {"last": Decimal(1), "x": Decimal(2)}
    assert {type(value) for value in kwargs.values()} == {Decimal}


def test_the_context_is_no_argument_of_the_call() -> None:
    def handler(ctx: Any, n: int) -> None: ...

    shape = shape_of(handler, context=True)
    assert through_json(shape, 3) == ([3], {})
    with pytest.raises(TypeError):
        shape.encode((1, 2), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [
        ((), {"to": "a"}, "'subject'"),
        (("a", "b", "c"), {}, "too many"),
        (("a",), {"subj": "b"}, "'sub"),
        (("a", "b"), {"to": "c"}, "'to'"),
    ],
)
def test_wrong_arguments_are_a_type_error_as_for_the_function(
    args: tuple[Any, ...], kwargs: dict[str, Any], named: str
) -> None:
    def send_email(to: str, subject: str) -> None: ...

    with pytest.raises(TypeError):
        send_email(*args, **kwargs)
    with pytest.raises(TypeError, match=rf"send_email\(\).*{named}"):
        shape_of(send_email).encode(args, kwargs)


def test_what_cannot_be_written_is_refused_by_the_name_of_its_argument() -> None:
    def handler(a: Any, b: Any = None, *c: Any, **d: Any) -> None: ...

    shape = shape_of(handler)
    for call in ((object(),), (1, object()), (1, 2, 3, object())):
        with pytest.raises(
            PayloadError, match=f'argument "{"abc"[min(len(call), 3) - 1]}" of task shop.task'
        ):
            shape.encode(call, {})
    with pytest.raises(PayloadError, match=r'argument "x".*builtins\.object.*dataclasses'):
        shape.encode((1,), {"x": [{"deep": object()}]})


def test_a_value_that_would_not_come_back_is_refused_where_it_is_passed() -> None:
    with pytest.raises(PayloadError, match=r'argument "value".*annotation.*int'):
        takes(int).encode(("three",), {})
    with pytest.raises(PayloadError, match="annotation"):
        takes(Line).encode(({"sku": "a"},), {})


def test_an_annotation_json_cannot_tell_still_takes_plain_values() -> None:
    either = takes(bytes | str)
    assert through_json(either, "plain") == (["plain"], {})
    with pytest.raises(PayloadError, match=r'argument "value".*str-like.*bytes would not come back'):
        either.encode((b"raw",), {})


def test_an_annotation_that_cannot_be_resolved_still_takes_plain_values() -> None:
    def handler(half: Fraction, when: date) -> None: ...

    shape = shape_of(handler)
    assert through_json(shape, 1, date.max) == ([1, date.max], {}), "the others are resolved"
    with pytest.raises(PayloadError, match=r'argument "half".*TYPE_CHECKING'):
        shape.encode(((date.max,), date.max), {})


@pytest.mark.parametrize(
    "payload",
    ["text", [1], {"args": 1}, {"kwargs": []}, {"arguments": [1]}, {"args": [1], "more": 1}, b"raw", 0],
)
def test_a_payload_of_another_shape_is_refused(payload: Any) -> None:
    with pytest.raises(UndecodableArguments, match=r'"args".*"kwargs"'):
        takes(int).decode(payload)


def test_what_plain_sql_may_leave_out_is_left_out() -> None:
    def handler(n: int = 1) -> None: ...

    shape = shape_of(handler)
    assert shape.decode(None) == ([], {})
    assert shape.decode({}) == ([], {})
    assert shape.decode({"args": [2]}) == ([2], {})
    assert shape.decode({"kwargs": {"n": 2}, "args": None}) == ([], {"n": 2})


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({"args": []}, "value"),
        ({"args": [1, 2]}, "too many"),
        ({"args": ["x"]}, 'argument "value".*int'),
        ({"kwargs": {"valeu": 1}}, "value"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(payload: Any, named: str) -> None:
    with pytest.raises(UndecodableArguments, match=named):
        takes(int).decode(payload)


def test_a_required_keyword_is_missed() -> None:
    def handler(a: int = 0, *, key: str) -> None: ...

    with pytest.raises(UndecodableArguments, match="key"):
        shape_of(handler).decode({"args": [1]})


def test_a_result_that_is_none_of_its_kind_is_refused() -> None:
    def handler() -> int: ...  # type: ignore[empty-body]

    shape = shape_of(handler)
    assert shape.decode_result(3) == 3
    for stored in ("three", None, b"raw"):
        with pytest.raises(UndecodableResult, match=r"shop\.task"):
            shape.decode_result(stored)


def test_a_result_that_cannot_be_written_is_refused_by_its_type() -> None:
    with pytest.raises(PayloadError, match=r"shop\.task.*returned a object"):
        encode_return(object(), "shop.task")
    assert encode_return(float("nan"), "shop.task") != 0, "that is for the settle to mend"


def test_bytes_come_back_without_an_annotation_too() -> None:
    def handler(): ...  # type: ignore[no-untyped-def]

    assert shape_of(handler).decode_result(encode_return(b"\0raw", "t")) == b"\0raw"
