"""The arguments of a task: bound as the function itself would, and carried through the database."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter
from operator import is_
from types import SimpleNamespace
from typing import Any, Final, cast

from holdfast.domain.job import Content, JsonValue
from holdfast.errors import InvalidArgument, PayloadError, UndecodableArguments, UndecodableResult
from holdfast.tasks import codec
from holdfast.tasks.codec import PLAIN, Hint

_BY_POSITION: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class CallShape:
    """How a task is called. Annotations are looked at when the first call is made, not at definition."""

    def __init__(self, fn: Callable[..., Any], task: str, *, context: bool) -> None:
        self._fn = fn
        self._task = task
        self._called = getattr(fn, "__name__", task)
        self.signature = _signature(fn, task, context=context)
        by_position = [each for each in self.signature.parameters.values() if each.kind in _BY_POSITION]
        self._positions = tuple(each.name for each in by_position)
        self._needed = sum(each.default is Parameter.empty for each in by_position)
        self._plainly_callable = not any(
            each.kind is Parameter.KEYWORD_ONLY and each.default is Parameter.empty
            for each in self.signature.parameters.values()
        )

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, JsonValue]:
        """The payload of a call; raise TypeError as the function would, PayloadError naming an argument."""
        if not kwargs and self._takes(args):
            return {"args": list(args), "kwargs": {}}
        if not self._plainly_fits(args, kwargs):
            try:
                self.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self._called}() {error}") from None
        return {
            "args": [
                codec.encode(value, self._hint_at(place), self._where(self._name_at(place)))
                for place, value in enumerate(args)
            ],
            "kwargs": {
                name: codec.encode(value, self._hint_of(name), self._where(name))
                for name, value in kwargs.items()
            },
        }

    def decode(self, payload: Content) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a payload; raise UndecodableArguments saying which does not fit, and why."""
        if isinstance(payload, dict) and len(payload) == 2 and payload.get("kwargs") == {}:
            args = payload.get("args")
            if isinstance(args, list) and tuple(map(type, args)) == self._plain_call:
                return args, {}  # most calls: there is nothing to take apart, to bind or to convert
        args, kwargs = self._taken_apart(payload)
        if not kwargs and self._takes(args):
            return args, {}
        if not self._plainly_fits(args, kwargs):
            try:
                self.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise UndecodableArguments(f"{self._called}() {error}; {_SHAPE}") from None
        return (
            [self._decoded(value, self._hint_at(place), place) for place, value in enumerate(args)],
            {name: self._decoded(value, self._hint_of(name), name) for name, value in kwargs.items()},
        )

    def _takes(self, args: Sequence[Any]) -> bool:
        """Whether they are just what the annotations say, so that there is nothing to bind or to convert."""
        if not self._plainly_fits(args, {}):
            return False
        return all(map(is_, map(type, args), self._plain_types))

    @cached_property
    def _plain_types(self) -> tuple[Any, ...]:
        """The types of positions whose values JSON brings as they are; None for others."""
        return tuple(codec.plain_type(hint) for hint in self._hints_by_position)

    @cached_property
    def _plain_call(self) -> tuple[Any, ...] | None:
        """The types of arguments of a whole call by position that fits as it is, if there are such calls."""
        return self._plain_types if self._plainly_callable else None

    def decode_result(self, content: Content) -> Any:
        """What the function returned; raise UndecodableResult if that is not what it says it returns."""
        try:
            return codec.decode_content(content, self._hint_of("return"))
        except (ValueError, TypeError, RecursionError) as error:
            raise UndecodableResult(f"the stored result of a {self._task} job: {error}") from error

    def refuse_flaws(self, payload: Mapping[str, Any]) -> None:
        """Raise PayloadError naming the argument that PostgreSQL cannot store, if one is to blame."""
        for place, value in enumerate(payload["args"]):
            codec.refuse_flaws(value, self._where(self._name_at(place)))
        for name, value in payload["kwargs"].items():
            codec.refuse_flaws(value, self._where(name))

    def _plainly_fits(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether the call surely fits. To bind it, which knows all cases, takes as long as to encode it."""
        return not kwargs and self._plainly_callable and self._needed <= len(args) <= len(self._positions)

    @cached_property
    def _hints(self) -> dict[str, Hint]:
        return {
            name: hint if isinstance(hint, Hint) else codec.hint_for(hint)
            for name, hint in _annotations(self._fn).items()
        }

    @cached_property
    def _rest(self) -> tuple[str, str]:
        """The names of *args and **kwargs, if there are such."""
        names = {each.kind: each.name for each in self.signature.parameters.values()}
        return names.get(Parameter.VAR_POSITIONAL, ""), names.get(Parameter.VAR_KEYWORD, "")

    def _name_at(self, place: int) -> str:
        return self._positions[place] if place < len(self._positions) else self._rest[0]

    @cached_property
    def _hints_by_position(self) -> tuple[Hint, ...]:
        return tuple(self._hints.get(name, PLAIN) for name in self._positions)

    def _hint_at(self, place: int) -> Hint:
        by_position = self._hints_by_position
        return by_position[place] if place < len(by_position) else self._hints.get(self._rest[0], PLAIN)

    def _hint_of(self, name: str) -> Hint:
        known = name in self.signature.parameters or name == "return"
        return self._hints.get(name if known else self._rest[1], PLAIN)

    def _where(self, name: str) -> str:
        return f'argument "{name}" of task {self._task}'

    def _decoded(self, value: Any, hint: Hint, which: str | int) -> Any:
        try:
            return codec.decode(value, hint)
        except (ValueError, TypeError, RecursionError) as error:
            name = which if isinstance(which, str) else self._name_at(which)
            raise UndecodableArguments(f"{self._where(name)}: {error}") from error

    def _taken_apart(self, payload: Content) -> tuple[list[Any], dict[str, Any]]:
        if payload is None:
            return [], {}
        if not isinstance(payload, dict) or not payload.keys() <= _PARTS:
            raise UndecodableArguments(f"a job for task {self._task}: {_SHAPE}")
        args, kwargs = payload.get("args") or [], payload.get("kwargs") or {}
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise UndecodableArguments(f"a job for task {self._task}: {_SHAPE}")
        return args, kwargs


_PARTS: Final = frozenset(("args", "kwargs"))
_SHAPE: Final = 'its payload must be {"args": [...], "kwargs": {...}}, as its parameters ask for'


def encode_return(value: object, task: str) -> Content:
    """A result as it is settled; raise PayloadError naming the type if there is no such thing.

    What JSON can say and PostgreSQL cannot store passes: the settle makes it storable and says so.
    """
    try:
        return codec.encode_content(value, f"the result of task {task}")
    except PayloadError as error:
        raise PayloadError(f"{error}. It returned a {type(value).__qualname__}") from error


def _signature(fn: Callable[..., Any], task: str, *, context: bool) -> inspect.Signature:
    signature = inspect.signature(fn)
    if not context:
        return signature
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in _BY_POSITION:
        raise InvalidArgument(f"task {task}: context=True passes a JobContext as first argument; add one")
    return signature.replace(parameters=parameters[1:])


def _annotations(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:  # one that cannot be resolved must not spoil the others
        stated = cast("dict[str, Any]", getattr(fn, "__annotations__", {}))
        return {name: _annotation(fn, name, stated[name]) for name in stated}


def _annotation(fn: Callable[..., Any], name: str, annotation: Any) -> Any:
    alone = SimpleNamespace(__annotations__={name: annotation})
    try:
        return typing.get_type_hints(alone, getattr(fn, "__globals__", {}), include_extras=True)[name]
    except Exception as error:
        return Hint(
            Any,
            f"its annotation {annotation!r} cannot be resolved when the program runs ({error}); "
            "import the type outside of TYPE_CHECKING, at module level",
        )
