"""Whether content can be stored, and how: strictly when it is submitted, forgivingly when it is a result.

A submit refuses what PostgreSQL cannot hold, naming the place. A settle must never fail on content, or the
job would run for ever: there, whatever comes is made storable, and the stored text says so.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from math import isfinite
from typing import Final, cast

from holdfast.domain.flaws import (
    DEPTH,
    DIGITS,
    UNSTORABLE,
    find_flaw,
    is_enum,
    is_long,
    is_plain,
    name_of,
)
from holdfast.errors import PayloadError

CONTENT_BYTES: Final = 1024 * 1024
"""Largest payload or result, unless the caller has another cap."""

TEXT_CHARACTERS: Final = 64 * 1024
"""Longest error text, unless the caller has another cap."""

Dumps = Callable[[object], str]
"""Writes JSON text. Exponents are spelled as Python does (`1e+16`), control characters as `\\u00xx`."""

# Plain values are at most DEPTH deep, so circles need no bookkeeping here.
_dumps: Final[Dumps] = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode

_SMALLEST_TEXT = 512
_SMALLEST_JSON = 8 * _SMALLEST_TEXT
_LONG_NUMBER = re.compile(f"[0-9]{{{DIGITS + 1}}}")
_STRING_OR_EXPONENT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?<![0-9.])(-?[0-9.]++e\+[0-9]+)')


def encode_json(
    value: object, *, where: str = "payload", limit: int = CONTENT_BYTES, dumps: Dumps = _dumps
) -> str:
    """Write a value as JSON text that jsonb holds and gives back equal; raise PayloadError naming the flaw.

    Tuples are written as lists, subclasses as what they extend, except enums, which are refused like every
    other type. `limit` counts bytes of UTF-8.
    """
    if value is None:
        return "null"
    if not is_plain(value, limit):
        _refuse_flaw(value, where, limit)
    text = _dump(value, where, limit, dumps)
    if "\\u" in text or _may_hold_long_number(text):
        _refuse_flaw(value, where, limit)
    text = _spell_out(text)
    size = len(text) if text.isascii() else _size_in_utf8(text, value, where, limit)
    if size > limit:
        raise PayloadError(
            f"{where}: {size:,} bytes as JSON, at most {limit:,} are taken; "
            "store it elsewhere and pass a reference"
        )
    return text


def storable_json(value: object, limit: int = CONTENT_BYTES, *, dumps: Dumps = _dumps) -> str:
    """Write any value as JSON text that can be stored; never raise.

    What cannot be stored is replaced in its place by text that says so. What is too large becomes one string:
    head and tail of its JSON text, and how much was left out. A `limit` under 4096 counts as 4096.
    """
    try:
        return encode_json(value, where="result", limit=limit, dumps=dumps)
    except Exception:
        return _mend_json(value, limit, dumps)


def storable_text(text: object, limit: int = TEXT_CHARACTERS) -> str:
    """Make any text, or the text of any object, storable; never raise.

    What PostgreSQL cannot store is written as an escape; of what is too long head and tail are kept. Both are
    said in the text. The answer has at most `limit` characters, counted as 512 if it is less.
    """
    if type(text) is str and len(text) <= limit and text.isascii() and "\0" not in text:
        return text
    return _mend_text(_text_of(text), max(limit, _SMALLEST_TEXT))


def _refuse_flaw(value: object, where: str, limit: int) -> None:
    flaw = find_flaw(value, where, limit)
    if flaw is not None:
        raise PayloadError(flaw)


def _dump(value: object, where: str, limit: int, dumps: Dumps) -> str:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        _refuse_flaw(value, where, limit)
        raise PayloadError(f"{where}: cannot be written as JSON: {error}") from error


def _size_in_utf8(text: str, value: object, where: str, limit: int) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        _refuse_flaw(value, where, limit)
        raise PayloadError(f"{where}: {error}") from error


def _may_hold_long_number(text: str) -> bool:
    """Python itself refuses to write one, unless this process raised the limit; its readers may not have."""
    if len(text) <= DIGITS or 0 < sys.get_int_max_str_digits() <= DIGITS:
        return False
    return _LONG_NUMBER.search(text) is not None


def _spell_out(text: str) -> str:
    """Write floats from 1e16 on without exponent: jsonb would make them integers, and 10**23 != 1e23."""
    if "e+" not in text:
        return text
    return _STRING_OR_EXPONENT.sub(lambda found: f"{float(found[1]):.1f}" if found[1] else found[0], text)


def _mend_json(value: object, limit: int, dumps: Dumps) -> str:
    limit = room = max(limit, _SMALLEST_JSON)
    try:
        whole = text = _spell_out(dumps(_Mender(limit).mend(value)))
    except Exception:
        # The stack ends here, or the object fights back.
        whole = text = dumps(storable_text(value, limit) + " [holdfast: stored as text]")
    while len(text.encode()) > limit:  # at the latest an eighth fits: a character takes at most six bytes
        room //= 2
        text = dumps(storable_text(whole, room))
    return text


class _Mender:
    """Rebuilds a value from what JSON can say, looking at no more values than could ever fit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit

    def mend(self, value: object, depth: int = 0) -> object:
        self.left -= 1
        if is_enum(value):
            return self._as_text(value)
        match value:
            case None | bool():
                return value
            case int():
                return self._as_text(hex(value), "integer") if is_long(value) else int(value)
            case float():
                return float(value) if isfinite(value) else self._as_text(value)
            case str():
                return storable_text(value, self.limit)
            case dict() | list() | tuple() if depth == DEPTH or self.left <= 0:
                name = name_of(cast("object", value))
                return f"[holdfast: {name} left out, nested too deep or in too large a value]"
            case dict():
                return self._mend_dict(cast("dict[object, object]", value), depth)
            case list() | tuple():
                return [self.mend(item, depth + 1) for item in cast("list[object]", value)]
            case _:
                return self._as_text(value)

    def _mend_dict(self, pairs: dict[object, object], depth: int) -> dict[str, object]:
        mended: dict[str, object] = {}
        for key, value in pairs.items():
            name = storable_text(key, self.limit)
            while name in mended:
                name = f"{name} #{len(mended)}"
            mended[name] = self.mend(value, depth + 1)
        if not all(isinstance(key, str) for key in pairs):
            mended["[holdfast]"] = "keys that were not text are stored as their text"
        return mended

    def _as_text(self, value: object, name: str | None = None) -> str:
        return f"{storable_text(value, self.limit)} [holdfast: {name or name_of(value)} stored as text]"


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    try:
        return str.__str__(str(value))
    except Exception:
        return f"[holdfast: {name_of(value)} without a text of its own]"


def _mend_text(text: str, limit: int) -> str:
    if len(text) <= limit:
        if _is_storable(text):
            return text
        escaped, count = UNSTORABLE.subn(_escape, text)
        mended = escaped + _note(count)
        if len(mended) <= limit:
            return mended
    room = limit - 160  # for both notes
    head, tail = _ends(text, room)
    # An escape takes up to five characters more than what it stands for.
    grown = 5 * (len(UNSTORABLE.findall(head)) + len(UNSTORABLE.findall(tail)))
    head, tail = _ends(text, max(room - grown, room // 6))
    left_out = f" [holdfast: {len(text) - len(head) - len(tail):,} characters left out] "
    head, in_head = UNSTORABLE.subn(_escape, head)
    tail, in_tail = UNSTORABLE.subn(_escape, tail)
    return head + left_out + tail + _note(in_head + in_tail)


def _is_storable(text: str) -> bool:
    """The same as a search for UNSTORABLE, ten times as fast for text in other scripts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _ends(text: str, room: int) -> tuple[str, str]:
    half = room // 2
    return text[:half], text[len(text) - half :]


def _escape(found: re.Match[str]) -> str:
    return "\\x00" if found[0] == "\0" else f"\\u{ord(found[0]):04x}"


def _note(count: int) -> str:
    return f" [holdfast: characters PostgreSQL cannot store, escaped: {count:,}]" if count else ""
