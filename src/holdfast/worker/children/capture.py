"""Make text of whatever a handler raised. Nothing here raises, whatever the error does when it is printed."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from holdfast.domain.content import storable_text
from holdfast.domain.control import PermanentError, RetryAfter, Snooze
from holdfast.errors import JobCancelled
from holdfast.worker.children.values import CANCELLED, PERMANENT

_HERE = str(Path(__file__).parent)
_CANCELLED_ERROR = (
    "asyncio.exceptions.CancelledError"  # by name: a child without async handlers has no asyncio
)


def captured(error: BaseException, why: str | None = None) -> dict[str, object]:
    """The fields of Raised. `why` is what a stop was asked for with, if one was."""
    return {
        "kind": kind_of(type(error)),
        "message": message_of(error),
        "traceback": traceback_of(error),
        "control": control_of(error, why),
        "lineage": [kind_of(base) for base in type(error).__mro__[:-1]],
    }


def permanent(error: Exception, message: str) -> dict[str, object]:
    """The fields of Raised for an error that no other attempt will mend."""
    control = {"kind": PERMANENT, "delay_s": None, "reason": message}
    return {**captured(error), "message": message, "traceback": "", "control": control}


def kind_of(cls: type[object]) -> str:
    """The qualified name of a class, without "builtins"."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def message_of(error: BaseException) -> str:
    """What the error says."""
    try:
        return storable_text(str(error))
    except BaseException as trouble:  # its __str__ may do anything, exit the interpreter included
        return f"[holdfast: its text could not be had: {type(trouble).__name__}]"


def traceback_of(error: BaseException) -> str:
    """The traceback without our own frames, and as much of it as can be had."""
    try:
        inner = _below_us(error.__traceback__)
        return storable_text("".join(traceback.format_exception(type(error), error, inner)))
    except BaseException:
        return _places_of(error)


def control_of(error: BaseException, why: str | None) -> dict[str, object] | None:
    """What the error asks for, as data; None if it is nothing but an error."""
    match error:
        case RetryAfter() | Snooze():
            name = "RetryAfter" if isinstance(error, RetryAfter) else "Snooze"
            return {"kind": name, "delay_s": error.delay_s, "reason": storable_text(error.reason)}
        case PermanentError():
            return {"kind": PERMANENT, "delay_s": None, "reason": message_of(error)}
        case JobCancelled():
            return {"kind": CANCELLED, "delay_s": None, "reason": why or message_of(error)}
        case _ if why is not None and _CANCELLED_ERROR in map(kind_of, type(error).__mro__):
            return {"kind": CANCELLED, "delay_s": None, "reason": why}
        case _:
            return None


def _places_of(error: BaseException) -> str:
    """Where it was raised, without asking the error itself for anything."""
    try:
        return storable_text("".join(traceback.format_tb(error.__traceback__)) + kind_of(type(error)))
    except BaseException:  # out of memory, most likely
        return ""


def _below_us(frames: TracebackType | None) -> TracebackType | None:
    """What a reader wants to see begins where the app's code does."""
    inner = frames
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_HERE):
        inner = inner.tb_next
    return inner or frames
