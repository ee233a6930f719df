"""Why a value cannot be stored as JSON: where the flaw is, what it is, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from math import isfinite
from types import NoneType
from typing import Final, cast

DEPTH: Final = 256
"""Deepest nesting. PostgreSQL takes some 6000 levels; Python's json, what is left of the stack's 1000."""

DIGITS: Final = 4300
"""Longest integer: Python refuses to read a longer one back, whatever wrote it."""

UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
"""What JSON can escape and PostgreSQL cannot store: NUL, and halves of surrogate pairs."""

_TOO_LONG: Final[int] = 10**DIGITS
_SCALARS: Final = frozenset({str, int, float, bool, NoneType})
_ADVICE: Final = {
    "datetime": "pass its isoformat()",
    "date": "pass its isoformat()",
    "time": "pass its isoformat()",
    "timedelta": "pass its total_seconds()",
    "Decimal": "pass str() of it",
    "UUID": "pass str() of it",
    "set": "pass a sorted list",
    "frozenset": "pass a sorted list",
    "bytes": "pass it as base64 text, or pass nothing but bytes",
    "bytearray": "pass it as base64 text, or pass nothing but bytes",
}


def is_plain(value: object, limit: int) -> bool:
    """Whether a value is made of json's own types, with text for keys, and not too deep. False: look closer.

    Texts and numbers are not looked into. Every value takes a byte or more, so what holds more containers
    than `limit` bytes is not walked to its end; what contains itself has no end.
    """
    if type(value) in _SCALARS:
        return True
    level = [value]
    seen = 0
    for _ in range(DEPTH):
        deeper: list[object] = []
        for container in level:
            if type(container) is dict:
                pairs = cast("dict[object, object]", container)
                for key in pairs:
                    if type(key) is not str:
                        return False
                items: Iterator[object] = iter(pairs.values())
            elif type(container) is list or type(container) is tuple:
                items = iter(cast("list[object]", container))
            else:
                return False
            deeper += [item for item in items if type(item) not in _SCALARS]
        if not deeper:
            return True
        seen += len(deeper)
        if seen > limit:
            return False
        level = deeper
    return False


def find_flaw(value: object, where: str, limit: int) -> str | None:
    """Say in one line what keeps a value from being stored, the first flaw in reading order, or None."""
    line = [(value, where, 0)]
    seen = 0
    while line:
        item, path, depth = line.pop()
        seen += 1
        flaw = _flaw_of(item)
        if flaw is not None:
            return f"{path}: {flaw}"
        if seen > limit:
            return f"{where}: more than {limit:,} values; store it elsewhere and pass a reference"
        if isinstance(item, (dict, list, tuple)):
            if depth == DEPTH:
                return f"{path}: nested deeper than {DEPTH} levels, or within itself; flatten it"
            children = [(child, step, depth + 1) for child, step in _children(cast("object", item), path)]
            line += reversed(children)
    return None


def is_enum(value: object) -> bool:
    """Whether a value is an enum member, which json would write as if it were its text or number."""
    return isinstance(value, Enum)


def is_long(number: int) -> bool:
    """Whether an integer has more digits than can be read back."""
    return abs(number) >= _TOO_LONG


def name_of(value: object) -> str:
    """The name of a value's type, for messages."""
    return type(value).__name__


def _flaw_of(value: object) -> str | None:
    """What is wrong with this very value; its children are looked at on their own."""
    if is_enum(value):
        return f"{name_of(value)} is an enum; pass its value"
    match value:
        case None | bool():
            return None
        case int():
            return f"an integer of more than {DIGITS} digits; pass it as text" if is_long(value) else None
        case float():
            return None if isfinite(value) else f"{value} is not a JSON number; pass None or text"
        case str():
            return _flaw_of_text(value)
        case dict():
            keys = cast("dict[object, object]", value)
            return next((flaw for key in keys if (flaw := _flaw_of_key(key)) is not None), None)
        case list() | tuple():
            return None
        case _:
            advice = _ADVICE.get(name_of(value), "convert it first")
            return f"{name_of(value)} cannot be stored as JSON; {advice}"


def _flaw_of_key(key: object) -> str | None:
    if not isinstance(key, str) or is_enum(key):
        return f"key {_shown(key)} is of type {name_of(key)}; JSON keys are text"
    flaw = _flaw_of_text(key)
    return None if flaw is None else f"key {_shown(key)}: {flaw}"


def _flaw_of_text(text: str) -> str | None:
    found = UNSTORABLE.search(text)
    if found is None:
        return None
    name = "a NUL character" if found[0] == "\0" else f"the lone surrogate {found[0]!a}"
    return f"{name} at position {found.start()}, which PostgreSQL cannot store; remove it or pass bytes"


def _children(value: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            yield child, f"{path}.{key}" if key.isidentifier() else f"{path}[{_shown(key)}]"
    else:
        for index, child in enumerate(cast("list[object]", value)):
            yield child, f"{path}[{index}]"


def _shown(key: object) -> str:
    shown = ascii(key)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
