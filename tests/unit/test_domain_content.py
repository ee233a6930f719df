"""Content is refused with a reason when it is submitted, and never when it is a result."""

from __future__ import annotations

import json
import math
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import config
from holdfast.domain.content import CONTENT_BYTES, encode_json, storable_json, storable_text
from holdfast.domain.flaws import DEPTH, DIGITS
from holdfast.errors import PayloadError

storable_strings = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
any_strings = st.text(st.characters())
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | storable_strings,
    lambda inner: st.lists(inner) | st.dictionaries(storable_strings, inner),
    max_leaves=20,
)
anything = st.recursive(
    st.none()
    | st.integers()
    | st.floats()
    | any_strings
    | st.binary()
    | st.datetimes()
    | st.sampled_from([Decimal(1)]),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers())
        | st.dictionaries(any_strings | st.integers() | st.none(), inner)
    ),
    max_leaves=20,
)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("not today")


class Rebel(dict[str, int]):
    def items(self) -> Iterator[tuple[str, int]]:  # type: ignore[override]
        raise RuntimeError("not today")


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def doubled(times: int) -> object:
    value: object = 1
    for _ in range(times):
        value = [value, value]
    return value


def is_storable(text: str) -> bool:
    return "\0" not in text and "\\u0000" not in text and text.encode().decode() == text


@contextmanager
def longest_integer(digits: int) -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(digits)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def test_the_cap_is_the_configured_one() -> None:
    assert CONTENT_BYTES == config.PAYLOAD_BYTES


@given(json_values)
def test_a_json_value_reads_back_equal(value: object) -> None:
    assert json.loads(encode_json(value)) == value


@given(numbers)
def test_a_number_reads_back_with_its_type(number: float) -> None:
    assert type(json.loads(encode_json({"n": number}))["n"]) is type(number)


def test_a_large_float_is_written_without_exponent_because_jsonb_would_make_it_an_integer() -> None:
    assert encode_json([1e16, -1.5e300, "1e+16"])[:25] == "[10000000000000000.0,-150"
    assert json.loads(encode_json([1e23, "1e+16", '"e+'])) == [1e23, "1e+16", '"e+']


def test_long_numbers_beside_one_with_an_exponent_are_written_in_no_time() -> None:
    began = process_time()
    encode_json([10 ** (DIGITS - 1)] * 200 + [1e300])
    assert process_time() - began < 1


def test_text_in_any_script_is_written_as_it_is() -> None:
    assert encode_json("größe 😀") == '"größe 😀"'


def test_tuples_and_subclasses_are_written_as_what_they_extend() -> None:
    assert encode_json({"pair": (1, 2), "more": OrderedDict(a=True)}) == '{"pair":[1,2],"more":{"a":true}}'


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (
            {"items": [0, 1, 2, {"when": datetime(2026, 1, 1, tzinfo=UTC)}]},
            r"^payload\.items\[3\]\.when: datetime .*isofo",
        ),
        ({"a b": {1, 2}}, r"^payload\['a b'\]: set cannot be stored as JSON; pass a sorted list"),
        (Decimal("1.5"), r"^payload: Decimal cannot .* pass str\(\) of it"),
        ([b"raw"], r"^payload\[0\]: bytes cannot .* base64"),
        ([object()], r"^payload\[0\]: object cannot .* convert it first"),
        ([Colour.RED], r"^payload\[0\]: Colour is an enum; pass its value"),
        ([Level.HIGH], r"^payload\[0\]: Level is an enum"),
        ({"w": Word.YES}, r"^payload\.w: Word is an enum"),
        ([math.nan], r"^payload\[0\]: nan is not a JSON number"),
        ([-math.inf], r"^payload\[0\]: -inf is not a JSON number"),
        ("a\0b", r"^payload: a NUL character at position 1, which PostgreSQL cannot store"),
        (["ok", "b\ud800"], r"^payload\[1\]: the lone surrogate '\\ud800' at position 1"),
        ({"a": {3: 1}}, r"^payload\.a: key 3 is of type int; JSON keys are text"),
        ({Word.YES: 1}, r"^payload: key .* is of type Word"),
        ({"k\0": 1}, r"^payload: key 'k\\x00': a NUL character at position 1"),
        ({"x": 10**DIGITS}, r"^payload\.x: an integer of more than 4300 digits; pass it as text"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place_and_what_to_do(
    value: object, complaint: str
) -> None:
    with pytest.raises(PayloadError, match=complaint):
        encode_json(value)


def test_the_first_flaw_in_reading_order_is_the_one_named() -> None:
    with pytest.raises(PayloadError, match=r"^payload\.a\[1\]:"):
        encode_json({"a": [1, b"", b""], "b": b""})


def test_the_complaint_names_what_was_given() -> None:
    with pytest.raises(PayloadError, match=r"^retry\.base: datetime"):
        encode_json({"base": datetime(2026, 1, 1, tzinfo=UTC)}, where="retry")


def test_a_backslash_that_only_looks_like_a_nul_is_stored() -> None:
    assert json.loads(encode_json("\\u0000 \x01")) == "\\u0000 \x01"


def test_the_longest_integer_is_exact() -> None:
    longest = 10**DIGITS - 1

    assert json.loads(encode_json([longest, -longest])) == [longest, -longest]


def test_an_integer_its_readers_could_not_read_is_refused_even_where_python_could_write_it() -> None:
    with longest_integer(0), pytest.raises(PayloadError, match="more than 4300 digits"):
        encode_json([1, 10**DIGITS])


def test_a_long_row_of_digits_in_a_text_is_no_integer() -> None:
    with longest_integer(0):
        assert len(encode_json("1" * 5000)) == 5002


def test_nesting_is_allowed_to_a_depth_everyone_can_read() -> None:
    assert json.loads(encode_json(nested(DEPTH))) == nested(DEPTH)
    with pytest.raises(PayloadError, match="nested deeper than 256 levels"):
        encode_json(nested(DEPTH + 1))


def test_a_structure_within_itself_is_refused() -> None:
    ring: list[object] = []
    ring += [ring, ring]

    with pytest.raises(PayloadError, match="or within itself"):
        encode_json(ring, limit=20_000)


def test_a_small_structure_with_a_huge_text_is_refused_without_writing_it() -> None:
    with pytest.raises(PayloadError, match="more than 20,000 values"):
        encode_json(doubled(200), limit=20_000)


def test_the_cap_counts_bytes_not_characters() -> None:
    assert encode_json("é" * 9, limit=20) == f'"{"é" * 9}"'
    with pytest.raises(PayloadError, match="payload: 22 bytes as JSON, at most 20 are taken"):
        encode_json("é" * 10, limit=20)


def test_another_encoder_can_be_used_and_its_complaint_is_passed_on() -> None:
    def strict(value: object) -> str:
        raise TypeError("no thanks")

    assert encode_json({"a": "ü"}, dumps=lambda value: json.dumps(value)) == '{"a": "\\u00fc"}'
    with pytest.raises(PayloadError, match="payload: cannot be written as JSON: no thanks"):
        encode_json(1, dumps=strict)


def test_an_encoder_that_escapes_surrogates_cannot_smuggle_them_in() -> None:
    with pytest.raises(PayloadError, match="lone surrogate"):
        encode_json("\ud800", dumps=json.dumps)


def test_clean_text_is_kept_as_it_is() -> None:
    for text in ("", "ValueError: no", "größe 😀", "a\\x00b"):
        assert storable_text(text) == text


def test_what_postgresql_cannot_store_is_shown_and_said() -> None:
    shown = storable_text("a\0b\ud800c")

    assert shown == r"a\x00b\ud800c [holdfast: characters PostgreSQL cannot store, escaped: 2]"


def test_of_a_long_text_head_and_tail_are_kept_and_the_rest_is_counted() -> None:
    text = "head" + "x" * 5000 + "tail"

    shown = storable_text(text, 600)

    assert shown.startswith("headx")
    assert shown.endswith("xtail")
    kept = shown.replace(" [holdfast: 4,568 characters left out] ", "")
    assert len(kept) + 4568 == len(text)


@given(any_strings, st.integers(512, 2000), st.integers(1, 2000))
def test_any_text_becomes_storable_and_no_longer_than_allowed(text: str, limit: int, times: int) -> None:
    shown = storable_text(text * times, limit)

    assert is_storable(shown)
    assert len(shown) <= limit


@given(any_strings, st.integers(-1, 511))
def test_a_limit_too_small_for_its_own_note_is_raised(text: str, limit: int) -> None:
    assert len(storable_text(text, limit)) <= 512


def test_any_object_has_a_storable_text() -> None:
    assert storable_text(ValueError("a\0")) == storable_text("a\0")
    assert storable_text(Unprintable()) == "[holdfast: Unprintable without a text of its own]"


def test_a_clean_result_is_written_as_a_payload_would_be() -> None:
    assert storable_json({"a": (1, "ü")}) == encode_json({"a": (1, "ü")})


def test_a_flawed_result_keeps_its_shape_and_says_what_was_done() -> None:
    result = {"when": datetime(2026, 1, 1, tzinfo=UTC), "n": [1, math.nan], "t": "a\0", 7: None, "big": 1e20}

    assert json.loads(storable_json(result)) == {
        "when": "2026-01-01 00:00:00+00:00 [holdfast: datetime stored as text]",
        "n": [1, "nan [holdfast: float stored as text]"],
        "t": "a\\x00 [holdfast: characters PostgreSQL cannot store, escaped: 1]",
        "7": None,
        "big": 1e20,
        "[holdfast]": "keys that were not text are stored as their text",
    }


def test_keys_that_read_the_same_do_not_hide_each_other() -> None:
    stored = json.loads(storable_json({"1": "text", 1: "number"}))

    assert (stored["1"], stored["1 #1"]) == ("text", "number")


def test_an_integer_too_long_for_json_is_stored_as_hexadecimal_text() -> None:
    assert json.loads(storable_json(16**4000)).startswith("0x1000")


def test_a_result_too_large_becomes_its_own_head_and_tail() -> None:
    stored = json.loads(storable_json(["é" * 10] * 10_000, limit=5000))

    assert stored.startswith('["éé')
    assert stored.endswith('éé"]')
    assert "characters left out" in stored


@pytest.mark.parametrize("value", [nested(5000), doubled(200), Rebel(a=1), Unprintable(), {Unprintable(): 1}])
def test_no_object_is_too_strange_for_a_result(value: object) -> None:
    stored = storable_json(value, limit=20_000)

    json.loads(stored)
    assert "holdfast" in stored
    assert len(stored.encode()) <= 20_000


@given(anything, st.integers(4096, 10_000))
def test_any_result_becomes_storable_and_no_larger_than_allowed(value: object, limit: int) -> None:
    stored = storable_json([value] * 20, limit)

    json.loads(stored)
    assert "\0" not in stored
    assert len(stored.encode()) <= limit


def test_a_result_is_stored_even_where_the_stack_is_about_to_end() -> None:
    def dive(frames: int) -> str:
        return dive(frames - 1) if frames else storable_json(nested(200))

    room = sys.getrecursionlimit() - len(_frames()) - 150

    assert json.loads(dive(room))


def _frames() -> list[object]:
    frames: list[object] = []
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        frames.append(frame)
    return frames
