"""Holdfast: the object that tasks, enqueueing, workers and looking after jobs hang from."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from holdfast.client import Client, JobHandle, Jobs, Resources, Stores, Transaction
from holdfast.config import default_schema, schema_name
from holdfast.domain.measures import whole_number
from holdfast.embedded import Database
from holdfast.errors import InvalidArgument
from holdfast.queue.opening import reach
from holdfast.store import arguments
from holdfast.tasks import JobSpec, Registry
from holdfast.tasks.defining import ContextTaskDecorator, TaskDecorator, define
from holdfast.tasks.options import TaskOptions
from holdfast.tasks.task import AsyncTask, SyncTask
from holdfast.telemetry import Metrics

if TYPE_CHECKING:
    from holdfast.domain.job import JsonValue
    from holdfast.worker import Worker
    from holdfast.worker.children.context import ChildContext

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_CONCURRENCY: Final = 10


class Holdfast:
    """An app: its tasks, and the database their jobs are in.

    The database is that of `dsn`, else of HOLDFAST_DATABASE_URL, else of DATABASE_URL, else the embedded one
    of the project, which client and worker both find. Nothing of this is looked at before the first use, so
    an app may stand at the top of a module. A database of your own is never changed unasked: where Holdfast
    is missing, SchemaMissing names the command.

    Threads, event loops and forked children may use one app; each gets the connections it needs.
    """

    def __init__(self, dsn: str | None = None, *, schema: str | None = None) -> None:
        self._dsn = arguments.optional_text(dsn, "dsn")
        self._schema = schema_name(default_schema() if schema is None else arguments.text(schema, "schema"))
        self._registry = Registry()
        self._stores = Stores(partial(reach, self._dsn, self._schema), self._schema)
        self._client = Client(self._stores, self._registry, self._schema)
        self._metrics = Metrics()

    # Tasks

    @overload
    def task(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, *, context: Literal[True], **options: Unpack[TaskOptions]) -> ContextTaskDecorator: ...
    @overload
    def task(self, *, context: Literal[False] = ..., **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(self, fn: Callable[..., Any] | None = None, *, context: bool = False, **options: Any) -> Any:
        """Make a task of a function: `@hf.task`, or `@hf.task(queue="mail", retry=5, ...)`.

        Options: `queue`, `priority` (larger is sooner), `retry` (attempts, or a Retry), `timeout`,
        `resources`, `singleton_key`, `tags`, `run_in` ("loop", "thread" or "process"), `name`, `aliases`.
        With `context=True` the function gets a JobContext as first argument, which callers do not pass.
        """
        if fn is not None:
            return define(fn, self._client, self._registry, options, context=context)
        decorator = ContextTaskDecorator if context else TaskDecorator
        return decorator(self._client, self._registry, options)

    # Enqueueing

    @overload
    def enqueue_many(
        self, specs: Iterable[JobSpec[R]], *, conn: object = ..., returning: Literal[True] = ...
    ) -> list[JobHandle[R]]: ...
    @overload
    def enqueue_many(
        self, specs: Iterable[JobSpec[R]], *, conn: object = ..., returning: Literal[False]
    ) -> int: ...
    def enqueue_many(
        self, specs: Iterable[JobSpec[R]], *, conn: object = None, returning: bool = True
    ) -> list[JobHandle[R]] | int:
        """Enqueue calls made by `task.job(...)`, all or none, in one statement.

        Answers handles in the order given, or with `returning=False` only how many.
        """
        handles = self._client.send_many(specs, conn)
        return handles if returning else len(handles)

    @overload
    async def aenqueue_many(
        self, specs: Iterable[JobSpec[R]], *, conn: object = ..., returning: Literal[True] = ...
    ) -> list[JobHandle[R]]: ...
    @overload
    async def aenqueue_many(
        self, specs: Iterable[JobSpec[R]], *, conn: object = ..., returning: Literal[False]
    ) -> int: ...
    async def aenqueue_many(
        self, specs: Iterable[JobSpec[R]], *, conn: object = None, returning: bool = True
    ) -> list[JobHandle[R]] | int:
        """As `enqueue_many`, for asyncio."""
        handles = await self._client.asend_many(specs, conn)
        return handles if returning else len(handles)

    def transaction(self, conn: object) -> Transaction:
        """Enqueue in the transaction of this connection within the block: `with`, or `async with`.

        A psycopg Connection or AsyncConnection, an asyncpg Connection, a SQLAlchemy Session, AsyncSession,
        Connection or AsyncConnection, or a Django connection. Beginning and committing stay with the caller:
        rolled back means no job and no signal. Blocks may be nested; the innermost counts, and within
        `transaction(None)` jobs are enqueued at once. It holds for this thread or task and for tasks started
        in the block, until the block ends.
        """
        return self._client.transaction(conn)

    # Looking after jobs

    @property
    def jobs(self) -> Jobs:
        """Find, list, cancel, revive and delete jobs."""
        return Jobs(self._client)

    @property
    def resources(self) -> Resources:
        """Resources by key: `hf.resources["smtp"].capacity = 2`."""
        return Resources(self._client)

    @property
    def metrics(self) -> Metrics:
        """What happened in this process: `hf.metrics.snapshot()`."""
        return self._metrics

    # Workers

    def worker(self, queues: Mapping[str, int] | Sequence[str] | None = None, **settings: Any) -> Worker:
        """A worker for these queues, so many jobs of each at a time: `async with hf.worker({"mail": 2})`."""
        from holdfast.worker import Worker

        return Worker(self, _concurrency(queues), **settings)

    def run_worker(
        self,
        queues: Mapping[str, int] | Sequence[str] | None = None,
        *,
        processes: int = 1,
        log_format: Literal["text", "json"] | None = None,
        log_level: str | None = None,
        **settings: Any,
    ) -> None:
        """Run a worker until SIGTERM or SIGINT: the first stops it in order, the second in a hurry.

        Raises SystemExit with the exit code if that is not 0. Log lines go to stderr, unless the program has
        set up logging itself. With several processes, call it under `if __name__ == "__main__"`.
        """
        from holdfast.worker.launching import run_worker

        run_worker(self, _concurrency(queues), processes, log_format, log_level, settings)

    # What workers and commands need

    @property
    def schema(self) -> str:
        """The schema of the installation."""
        return self._schema

    @property
    def registry(self) -> Registry:
        """The tasks of this app, by name."""
        return self._registry

    @property
    def stores(self) -> Stores:
        """The connections of this app."""
        return self._stores

    def execute(self, task: str, payload: JsonValue, context: ChildContext) -> object:
        """In a child process: run the handler of a task."""
        from holdfast.worker.child_side import execute

        return execute(self._registry, task, payload, context)

    def database(self) -> Database:
        """The database, reached if it was not yet; blocks. Raises DatabaseUnavailable or SchemaMissing."""
        return self._stores.database()

    # Closing

    def close(self) -> None:
        """Close all connections; whoever uses the app again opens them anew. In async code: `aclose`."""
        self._stores.close()

    async def aclose(self) -> None:
        """As `close`, for asyncio."""
        await self._stores.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        tasks = "1 task" if len(self._registry) == 1 else f"{len(self._registry)} tasks"
        return f"<Holdfast of schema {self._schema}, {tasks}>"


def _concurrency(queues: Mapping[str, int] | Sequence[str] | None) -> dict[str, int]:
    if queues is None:
        return {"default": DEFAULT_CONCURRENCY}
    if isinstance(queues, str):
        raise InvalidArgument(f'queues must be a mapping or a list, not {queues!r}; write {{"{queues}": 10}}')
    named = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, DEFAULT_CONCURRENCY)
    if not named:
        raise InvalidArgument("a worker needs at least one queue")
    return {
        arguments.queue(name, "queues"): whole_number(slots, f'concurrency of queue "{name}"')
        for name, slots in named.items()
    }
