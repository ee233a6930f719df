"""The language of the pipe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.worker.children import frames
from holdfast.worker.children.frames import FRAME_BYTES, Garbled, Splitter, from_text, to_bytes

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.lists(json_values, max_size=4), st.integers(1, 20))
def test_frames_come_out_as_they_went_in_however_they_are_cut(values: list[object], step: int) -> None:
    stream = b"".join(to_bytes({"op": "x", "value": value}) for value in values)
    splitter = Splitter()
    found = [
        frame["value"]
        for at in range(0, len(stream), step)
        for frame in splitter.feed(stream[at : at + step])
    ]
    assert found == values


def test_half_a_surrogate_pair_travels() -> None:
    [frame] = Splitter().feed(to_bytes({"op": "x", "text": "\ud800"}))
    assert frame["text"] == "\ud800"


@given(st.text(st.characters(min_codepoint=9, max_codepoint=126), min_size=4))
def test_any_text_is_seen_to_be_no_frame(text: str) -> None:
    with pytest.raises(Garbled):
        list(Splitter().feed(text.encode()))


@pytest.mark.parametrize("body", ["[]", "1", "{}", "{", "", "\x80", "[" * 100_000])
def test_what_is_no_object_with_an_op_is_no_frame(body: str) -> None:
    with pytest.raises(Garbled):
        list(Splitter().feed(from_text(body)))


def test_a_frame_that_is_too_large_is_refused_where_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    smallest_text = int.from_bytes(b"\t\t\t\t", "big")
    assert smallest_text > FRAME_BYTES
    monkeypatch.setattr(frames, "FRAME_BYTES", 100)
    with pytest.raises(ValueError, match="111 bytes as JSON, at most 100"):
        to_bytes({"op": "x" * 102})
