"""Values to JSON and back: by type annotations, never by pickle.

What an annotation says is what arrives: datetimes, UUIDs, Decimals, bytes, enums, dataclasses, msgspec
structs, tuples, sets, TypedDicts. What has no annotation arrives as plain JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import msgspec

from holdfast.domain.content import encode_json
from holdfast.domain.job import Content
from holdfast.errors import PayloadError

_AS_THEY_ARE: Final = (str, int, bool)


@dataclass(frozen=True, slots=True)
class Hint:
    """What a value is said to be, and why it could not be told from JSON, if it could not."""

    type: Any = Any
    trouble: str | None = None


PLAIN: Final = Hint()
"""Nothing is said: plain JSON."""


def hint_for(annotation: Any) -> Hint:
    """The hint of an annotation. One that JSON cannot tell is no error: plain values still pass."""
    try:
        msgspec.json.Decoder(annotation, dec_hook=_decode_foreign)
    except Exception as error:  # whatever a class of the user's does when it is looked at
        return Hint(Any, f"its annotation cannot be decoded from JSON ({error})")
    return Hint(annotation)


def encode(value: object, hint: Hint, where: str) -> Any:
    """The value in terms of JSON; raise PayloadError if it has none, or would not come back by its hint."""
    if type(value) is hint.type and type(value) in _AS_THEY_ARE:
        return value
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_foreign)
    except (TypeError, ValueError, NotImplementedError, RecursionError, OverflowError) as error:
        raise PayloadError(f"{where}: {error or type(error).__name__}. {_ADVICE}") from error
    if hint.trouble is not None and plain != value:
        raise PayloadError(f"{where}: {hint.trouble}, so a {type(value).__name__} would not come back as one")
    if hint.type is not Any:
        try:
            _convert(plain, hint)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"{where} does not fit its annotation: {error}") from error
    return plain


def decode(content: Any, hint: Hint) -> Any:
    """The value the hint describes; raise ValueError or TypeError if this is none."""
    if hint.type is Any:
        return content
    if type(content) is hint.type and type(content) in _AS_THEY_ARE:
        return content
    return _convert(content, hint)


def plain_type(hint: Hint) -> Any:
    """The type whose values arrive as JSON brings them, if the hint names one; else None."""
    return hint.type if hint.type in _AS_THEY_ARE else None


def encode_content(value: object, where: str) -> Content:
    """A whole result: bytes as they are, all else in terms of JSON; raise PayloadError naming the type."""
    if value is None or isinstance(value, bytes):
        return value
    return encode(value, PLAIN, where)  # type: ignore[no-any-return]


def decode_content(content: Content, hint: Hint) -> Any:
    """A whole result back; raise ValueError or TypeError if it is not what the hint says."""
    if isinstance(content, bytes):
        return content if hint.type in (bytes, Any) else bytes_as(content, hint)
    return decode(content, hint)


def bytes_as(content: bytes, hint: Hint) -> Any:
    return msgspec.convert(content, hint.type, builtin_types=(bytes, bytearray), dec_hook=_decode_foreign)


def refuse_flaws(content: Any, where: str) -> None:
    """Raise PayloadError, naming the place, for what JSON can say and PostgreSQL cannot store."""
    encode_json(content, where=where)


_ADVICE: Final = "Pass plain values, dataclasses or an id to look it up by"


def _convert(content: Any, hint: Hint) -> Any:
    return msgspec.convert(content, hint.type, str_keys=True, dec_hook=_decode_foreign)


def _encode_foreign(value: object) -> Any:
    dump = getattr(value, "model_dump", None)  # a pydantic model
    if dump is not None and not isinstance(value, type):
        return dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__} cannot be written as JSON")


def _decode_foreign(kind: Any, content: object) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate(content)
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(content, str):
        return kind(content)
    if isinstance(kind, type) and isinstance(content, kind):
        return content
    raise TypeError(f"{kind!r} cannot be made of {type(content).__name__}")
