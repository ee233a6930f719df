"""What a job can be asked for besides its arguments, checked where it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

from holdfast.domain.job import IfParentFails
from holdfast.domain.measures import INTEGER, Duration, aware, seconds, whole_number
from holdfast.domain.retry import Retry, retry_from
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.client.handle import JobHandle

RunIn: TypeAlias = Literal["loop", "thread", "process"]
"""Where a handler runs: on the worker's event loop, in a thread of it, or in a process of its own."""

Terms: TypeAlias = Mapping[str, Any]
"""Options as the fields of a new job."""


class TaskOptions(TypedDict, total=False):
    """What a task says about all its jobs."""

    queue: str
    priority: int
    retry: int | Retry
    timeout: Duration
    resources: Sequence[str]
    singleton_key: str
    tags: Sequence[str]
    run_in: RunIn
    name: str
    aliases: Sequence[str]


class Options(TypedDict, total=False):
    """What a call says about one job, over what its task says."""

    delay: Duration
    available_at: datetime
    expires: Duration
    job_id: str
    wait_for: Sequence[JobHandle[Any] | str]
    if_parent_fails: IfParentFails
    queue: str
    priority: int
    timeout: Duration
    retry: int | Retry
    resources: Sequence[str]
    singleton_key: str
    tags: Sequence[str]
    conn: object


def terms_of(options: Mapping[str, Any], whose: str) -> dict[str, Any]:
    """The options as fields of a new job; raise TypeError for unknown ones, InvalidArgument for others."""
    refuse_unknown(options, _READERS, whose)
    if "delay" in options and "available_at" in options:
        raise InvalidArgument("give delay or available_at, not both")
    terms: dict[str, Any] = {}
    for name, value in options.items():
        terms.update(_READERS[name](value, name))
    return terms


def merged(old: Terms, new: Terms) -> dict[str, Any]:
    """Later options win over earlier ones; a new due time replaces the old, however either was said."""
    kept = dict(old)
    if "delay_s" in new or "available_at" in new:
        kept.pop("delay_s", None)
        kept.pop("available_at", None)
    return {**kept, **new}


def run_in_of(value: str | None, *, is_async: bool) -> RunIn:
    """Where handlers run: as asked, else a coroutine on the loop and a plain function in a thread."""
    if value is None:
        return "loop" if is_async else "thread"
    if value not in get_args(RunIn):
        raise InvalidArgument(f"run_in must be loop, thread or process, not {value!r}")
    if value == "loop" and not is_async:
        raise InvalidArgument(
            'run_in="loop" needs an async def: a plain function would block every other job of the worker'
        )
    return cast("RunIn", value)


def texts(values: Any, name: str) -> tuple[str, ...]:
    """Several texts, each once. A single text is refused: it would be taken for its letters."""
    several = _items(values, f"{name} must be a list of texts, not {values!r}; write [{values!r}]")
    return tuple(dict.fromkeys(text(each, f"{name}[{place}]") for place, each in enumerate(several)))


def text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{name} must be text that is not empty, not {value!r}")
    return value


def _items(values: Any, otherwise: str) -> list[object]:
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InvalidArgument(otherwise)
    return list(values)


def _queue(value: object, name: str) -> Terms:
    return {"queue": text(value, name)}


def _priority(value: int, name: str) -> Terms:
    return {"priority": whole_number(value, name, least=-INTEGER - 1)}


def _available_at(value: datetime, name: str) -> Terms:
    return {"available_at": aware(value, name)}


def _delay(value: Duration, name: str) -> Terms:
    return {"delay_s": seconds(value, name)}


def _expires(value: Duration, name: str) -> Terms:
    return {"expires_in_s": seconds(value, name, positive=True)}


def _timeout(value: Duration, name: str) -> Terms:
    return {"timeout_s": seconds(value, name, positive=True)}


def _retry(value: int | Retry, name: str) -> Terms:
    policy = retry_from(value, name)
    if (policy.on, policy.give_up_on) != ((Exception,), ()):
        raise InvalidArgument(
            "retry: on and give_up_on are classes, which stay with the task and are not stored with a job; "
            "name them where the task is defined, @hf.task(retry=Retry(...))"
        )
    stored = policy.to_json() if isinstance(value, Retry) else None
    return {"max_attempts": policy.max_attempts, "retry": stored}


def _job_id(value: object, name: str) -> Terms:
    return {"job_id": text(value, name)}


def _wait_for(value: Any, name: str) -> Terms:
    parents = _items(value, f"{name} must be a list of handles or job ids, not {value!r}")
    return {"wait_for": tuple(dict.fromkeys(_job_id_of(each, name) for each in parents))}


def _job_id_of(parent: object, name: str) -> str:
    job_id = getattr(parent, "job_id", parent)
    if not isinstance(job_id, str):
        raise InvalidArgument(
            f"{name} must be handles or job ids, not {parent!r}; enqueue it first, and pass what that returns"
        )
    return text(job_id, name)


def _if_parent_fails(value: object, name: str) -> Terms:
    if value not in get_args(IfParentFails):
        raise InvalidArgument(f"{name} must be wait, cancel or run, not {value!r}")
    return {"if_parent_fails": value}


def _resources(value: object, name: str) -> Terms:
    if isinstance(value, list | tuple):
        value = [key for key in cast("Sequence[object]", value) if key != ""]  # an empty key locks nothing
    return {"resource_keys": texts(value, name)}


def _singleton_key(value: object, name: str) -> Terms:
    return {"singleton_key": text(value, name)}


def _tags(value: object, name: str) -> Terms:
    return {"tags": texts(value, name)}


def _conn(value: object, name: str) -> Terms:
    return {"conn": value}


_READERS: Final[Mapping[str, Callable[[Any, str], Terms]]] = {
    "delay": _delay,
    "available_at": _available_at,
    "expires": _expires,
    "job_id": _job_id,
    "wait_for": _wait_for,
    "if_parent_fails": _if_parent_fails,
    "queue": _queue,
    "priority": _priority,
    "timeout": _timeout,
    "retry": _retry,
    "resources": _resources,
    "singleton_key": _singleton_key,
    "tags": _tags,
    "conn": _conn,
}


def refuse_unknown(options: Mapping[str, Any], known: Iterable[str], whose: str) -> None:
    """Raise TypeError for an option that is none of these, with a guess at what was meant."""
    for name in options:
        if name not in known:
            raise TypeError(f'{whose} has no option "{name}"{_perhaps(name, known)}')


def _perhaps(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"
