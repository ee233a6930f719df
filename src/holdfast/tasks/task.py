"""A task: a function that can be called, and asked for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, cast

from holdfast.domain.job import Content, NewJob
from holdfast.domain.judging import message_of
from holdfast.domain.retry import Retry
from holdfast.errors import PayloadError
from holdfast.tasks.calls import CallShape, encode_return
from holdfast.tasks.context import DirectCall, current_job_or_none
from holdfast.tasks.options import Options, RunIn, Terms, merged, terms_of

if TYPE_CHECKING:
    from holdfast.client.handle import JobHandle

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Sender(Protocol):
    """Where a task sends its jobs."""

    def send(self, spec: JobSpec[R]) -> JobHandle[R]: ...

    async def asend(self, spec: JobSpec[R]) -> JobHandle[R]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """What is fixed about a task when it is defined."""

    fn: Callable[..., Any]
    name: str
    aliases: tuple[str, ...]
    sender: Sender
    shape: CallShape
    run_in: RunIn
    is_async: bool
    wants_context: bool
    retry: Retry
    timeout_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class JobSpec(Generic[R_co]):
    """A call that has not been sent yet: for `hf.enqueue_many`."""

    task: Task[..., R_co] = field(repr=False)
    new_job: NewJob
    expires_in_s: float | None = None
    """Counted from when the database takes the job, by its own clock."""
    conn: object = field(default=None, repr=False)


class Task(Generic[P, R]):
    """A function and how its jobs are to be run. Calling it runs the function, here and now."""

    def __init__(self, definition: Definition, terms: Terms) -> None:
        update_wrapper(cast("Callable[..., Any]", self), definition.fn)
        self._definition = definition
        self._terms = terms

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Ask for a job with these arguments; it is in line, or in the caller's transaction, on return.

        Raises TypeError for arguments the function would not take, PayloadError for what cannot be stored.
        """
        return self._definition.sender.send(self.job(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """As `enqueue`, for asyncio."""
        return await self._definition.sender.asend(self.job(*args, **kwargs))

    def job(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec[R]:
        """The call without sending it, for `hf.enqueue_many`. Arguments are checked and encoded here."""
        definition, terms = self._definition, dict(self._terms)
        expires_in_s, conn = terms.pop("expires_in_s", None), terms.pop("conn", None)
        payload = definition.shape.encode(args, kwargs)
        return JobSpec(self, NewJob(task=definition.name, payload=payload, **terms), expires_in_s, conn)

    def using(self, **options: Unpack[Options]) -> Self:
        """The same task with other options for the jobs that are asked for through what this returns."""
        terms = merged(self._terms, terms_of(options, f"{self.name}.using()"))
        return type(self)(self._definition, terms)

    @property
    def definition(self) -> Definition:
        """All that is fixed about it, for whoever needs much of it and often."""
        return self._definition

    @property
    def name(self) -> str:
        """What its jobs are called in the database."""
        return self._definition.name

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names it had before, under which jobs may still be waiting."""
        return self._definition.aliases

    @property
    def queue(self) -> str:
        """Where its jobs stand, unless a call says otherwise."""
        return str(self._terms.get("queue", "default"))

    @property
    def fn(self) -> Callable[..., Any]:
        """The function itself."""
        return self._definition.fn

    @property
    def run_in(self) -> RunIn:
        """Where a worker runs it."""
        return self._definition.run_in

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return self._definition.is_async

    @property
    def wants_context(self) -> bool:
        """Whether a JobContext is passed as first argument."""
        return self._definition.wants_context

    @property
    def retry(self) -> Retry:
        """The policy of jobs that bring none of their own; see `Retry.overruled_by`."""
        return self._definition.retry

    @property
    def timeout_s(self) -> float | None:
        """How long a job may run that brings no timeout of its own; None: for ever."""
        return self._definition.timeout_s

    @property
    def sender(self) -> Sender:
        """The app it belongs to."""
        return self._definition.sender

    @property
    def shape(self) -> CallShape:
        """How it is called."""
        return self._definition.shape

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __reduce__(self) -> str:
        # By reference, as functions are: whoever unpickles it imports the module that defines it.
        return str(self.fn.__qualname__)

    def _arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self.wants_context:
            return args
        return (current_job_or_none() or DirectCall(), *args)


class SyncTask(Task[P, R]):
    """A task whose function is a plain one."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now; no job is involved."""
        return cast("R", self.fn(*self._arguments(args), **kwargs))


class AsyncTask(Task[P, R]):
    """A task whose function is a coroutine function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run the function here and now, when awaited; no job is involved."""
        return cast("Coroutine[Any, Any, R]", self.fn(*self._arguments(args), **kwargs))


def decode_arguments(task: Task[..., Any], payload: Content) -> tuple[list[Any], dict[str, Any]]:
    """What to call the function with; raise UndecodableArguments if the payload does not fit it.

    The context, if the task wants one, is not among them.
    """
    return task.shape.decode(payload)


def encode_result(task: Task[..., Any], value: object) -> Content:
    """What to settle a completed job with; raise PayloadError naming the type that has no JSON."""
    return encode_return(value, task.name)


def unstorable(value: object, error: BaseException) -> str:
    """What is wrong with a result that `encode_result` refused, and of what type it is."""
    if isinstance(error, PayloadError):
        return str(error)
    return f"the result could not be stored: {message_of(error)}. It is a {type(value).__qualname__}"


def decode_result(task: Task[..., R], content: Content) -> R:
    """What the function returned; raise UndecodableResult if it is not what it says it returns."""
    return cast("R", task.shape.decode_result(content))
