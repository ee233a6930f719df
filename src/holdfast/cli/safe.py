"""Text of strangers on a terminal: job ids, tasks, errors and names can hold anything."""

from __future__ import annotations

import re
from typing import Final

# Control characters, which can move the cursor or paint the screen; signs that turn the direction of text;
# lines and halves of characters. Markup of rich is harmless where text is printed as text.
_ODD: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """The text on one line, odd characters spelled out."""
    return _ODD.sub(lambda found: _spelled(found[0]), text)


def lines(text: str) -> str:
    """The same, but line breaks and tabs stay what they are."""
    return "\n".join(one_line(line).replace("\\t", "    ") for line in text.splitlines())


def _spelled(character: str) -> str:
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if named:
        return named
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"
