"""The language of the pipe: JSON objects, each behind its length in four bytes. Never pickle.

Any text that strays onto the pipe reads as a length beyond the limit, and so is noticed at once.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

FRAME_BYTES: Final = 64 * 1024 * 1024
"""Largest frame. More than any payload or result that can be stored, and less than four letters of text."""

Frame: TypeAlias = dict[str, Any]

_HEADER: Final = struct.Struct(">I")
# Escaped to ASCII, so that every string can travel, halves of surrogate pairs included.
_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Garbled(Exception):
    """What came over the pipe is no frame."""


def to_bytes(frame: Mapping[str, object]) -> bytes:
    """A frame as it goes over the pipe; raise TypeError or ValueError for what JSON cannot say."""
    return from_text(_encode(frame))


def from_text(text: str) -> bytes:
    """The same for a frame that is JSON text already."""
    body = text.encode()
    if len(body) > FRAME_BYTES:
        raise ValueError(f"{len(body):,} bytes as JSON, at most {FRAME_BYTES:,} go over a child's pipe")
    return _HEADER.pack(len(body)) + body


class Splitter:
    """Cuts a stream of bytes into frames, however it arrives."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Give the frames that are complete with this; raise Garbled for what is none."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._buffer)
            if length > FRAME_BYTES:
                raise Garbled(f"it begins with {bytes(self._buffer[:40])!r}")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield _decode(body)


def _decode(body: bytes) -> Frame:
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"it begins with {body[:40]!r}") from error
    if not isinstance(frame, dict) or "op" not in frame:
        raise Garbled(f"it begins with {body[:40]!r}")
    return cast("Frame", frame)
