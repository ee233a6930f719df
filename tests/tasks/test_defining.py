"""What `@hf.task` makes of a function, and what it refuses."""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
import sys
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from holdfast import Holdfast, JobContext, Retry, current_job
from holdfast.errors import InvalidArgument, NoCurrentJob, PayloadError, TaskExists, UnknownTask
from holdfast.tasks import running
from holdfast.tasks.context import DirectCall

hf = Holdfast()


@hf.task
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@hf.task
async def fetch(url: str) -> bytes:
    return url.encode()


@hf.task(context=True)
def crunch(ctx: JobContext, n: int) -> str:
    return f"{ctx.job_id} {n}"


@pytest.fixture
def app() -> Holdfast:
    return Holdfast()


def test_a_task_is_still_its_function() -> None:
    assert add(2, b=3) == 5
    assert add.__doc__ == "Add two numbers."
    assert str(inspect.signature(add)) == "(a: 'int', b: 'int' = 1) -> 'int'"
    assert repr(add) == f"<SyncTask {__name__}.add>"


@pytest.mark.anyio
async def test_an_async_task_is_awaited() -> None:
    assert await fetch("x") == b"x"


def test_a_task_with_a_context_can_be_called_without_a_job() -> None:
    assert crunch(3) == "direct-call 3"


def test_within_a_job_a_direct_call_gets_its_context() -> None:
    class Mine(DirectCall):
        def __init__(self) -> None:
            super().__init__()
            self.job_id = "j1"

    with running(Mine()) as job:
        assert crunch(3) == "j1 3"
        assert current_job() is job
    with pytest.raises(NoCurrentJob, match="handler"):
        current_job()


def test_functions_run_in_threads_and_coroutines_on_the_loop_unless_told_otherwise(app: Holdfast) -> None:
    assert (add.run_in, fetch.run_in) == ("thread", "loop")
    assert app.task(run_in="process")(fetch.fn).run_in == "process"
    assert app.task(run_in="thread", name="b")(fetch.fn).run_in == "thread"


def test_the_options_of_a_task_are_those_of_its_jobs(app: Holdfast) -> None:
    @app.task(queue="mail", priority=3, resources=["smtp", ""], singleton_key="one", tags=["a", "a", "b"])
    def send() -> None: ...

    job = send.job().new_job
    assert (job.queue, job.priority, job.resource_keys, job.singleton_key, job.tags) == (
        "mail",
        3,
        ("smtp",),
        "one",
        ("a", "b"),
    )
    assert job.payload == {"args": [], "kwargs": {}}


def test_policy_and_timeout_of_a_task_stay_with_it(app: Holdfast) -> None:
    @app.task(retry=3, timeout=timedelta(minutes=1))
    def send() -> None: ...

    job = send.job().new_job
    assert (send.retry, send.timeout_s) == (Retry(3), 60)
    assert (job.retry, job.max_attempts, job.timeout_s) == (None, None, None), "so a new release changes them"


def test_policy_and_timeout_of_a_call_go_with_the_job() -> None:
    job = add.using(retry=Retry(3, base=1), timeout=5).job(1).new_job
    assert (job.max_attempts, job.timeout_s, job.retry and job.retry["base"]) == (3, 5, 1)
    assert add.using(retry=4).job(1).new_job.max_attempts == 4


def test_options_of_a_call_win_and_leave_the_task_alone() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    later = add.using(queue="slow", delay=5, tags=["x"])
    job = later.using(available_at=moment, queue="slower", wait_for=["p", "p"], job_id="mine").job(1).new_job
    assert (job.queue, job.delay_s, job.available_at, job.tags) == ("slower", None, moment, ("x",))
    assert (job.wait_for, job.job_id) == (("p",), "mine")
    assert later.job(1).new_job.delay_s == 5
    assert add.using(available_at=moment).using(delay=5).job(1).new_job.available_at is None
    assert add.job(1).new_job.queue == "default"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": 1, "available_at": datetime.now(UTC)}, "delay or available_at, not both"),
        ({"available_at": datetime(2030, 1, 1)}, "time zone"),
        ({"delay": -1}, "delay"),
        ({"expires": 0}, "expires"),
        ({"timeout": 0}, "timeout"),
        ({"tags": "urgent"}, r"tags must be a list.*\['urgent'\]"),
        ({"resources": "smtp"}, "resources must be a list"),
        ({"resources": [3]}, r"resources\[0\]"),
        ({"wait_for": "j1"}, "wait_for must be a list"),
        ({"wait_for": [add]}, "enqueue it first"),
        ({"if_parent_fails": "explode"}, "wait, cancel or run"),
        ({"queue": ""}, "queue"),
        ({"priority": 1.5}, "priority"),
        ({"job_id": 7}, "job_id"),
        ({"retry": "often"}, "retry"),
        ({"retry": Retry(on=OSError)}, "where the task is defined"),
        ({"singleton_key": ""}, "singleton_key"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        add.using(**options)


def test_an_option_that_does_not_exist_is_refused_with_a_guess(app: Holdfast) -> None:
    with pytest.raises(TypeError, match=r'"dealy"; did you mean delay\?'):
        add.using(dealy=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r'"que"; did you mean queue\?'):
        app.task(que="mail")(add.fn)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match='"delay"'):
        app.task(delay=3)(add.fn)  # type: ignore[call-overload]


def test_wrong_arguments_are_refused_where_the_call_is_written() -> None:
    with pytest.raises(TypeError, match=r"add\(\).*'a'"):
        add.job()  # type: ignore[call-arg]
    with pytest.raises(PayloadError, match='argument "a"'):
        add.job("x")  # type: ignore[arg-type]


def test_two_tasks_of_one_name_are_refused_naming_both(app: Holdfast) -> None:
    app.task(name="mail")(add.fn)
    with pytest.raises(TaskExists, match=r'"mail".*add.*fetch.*name='):
        app.task(name="mail")(fetch.fn)
    with pytest.raises(TaskExists, match='"mail"'):
        app.task(name="post", aliases=["mail"])(fetch.fn)
    assert app.registry.names() == ["mail"], "a refused task leaves nothing behind"


def test_a_task_is_found_by_its_old_names(app: Holdfast) -> None:
    task = app.task(name="mail", aliases=["post", "letter"])(add.fn)
    assert [app.registry.find(name) for name in ("mail", "post", "letter")] == [task] * 3
    assert (len(app.registry), list(app.registry)) == (1, [task])
    assert task.job(1).new_job.task == "mail"


def test_an_unknown_task_is_an_error_that_names_the_known_ones(app: Holdfast) -> None:
    app.task(name="billing.charge")(add.fn)
    with pytest.raises(UnknownTask, match=r'"mail.send".*billing\.charge.*Import the module') as caught:
        app.registry.find("mail.send")
    assert "\\" not in str(caught.value)
    assert app.registry.get("mail.send") is None


def test_a_module_may_be_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reloaded_tasks.py").write_text(
        f"from {__name__} import hf\n@hf.task(aliases=['old'])\ndef send() -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_tasks")
    again = importlib.reload(module)
    assert hf.registry.find("old") is hf.registry.find("reloaded_tasks.send") is again.send
    sys.modules.pop("reloaded_tasks")


class Callable_:
    calls: ClassVar[int] = 0

    async def __call__(self) -> None: ...


def generator() -> Generator[int]:
    yield 1


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ("mail", r"queue='mail'"),
        (3, "functions"),
        (dict, "functions"),
        (staticmethod(abs), "functions"),
        (generator, "generator"),
        (add, "already"),
        (functools.partial(print), "no name"),
        (lambda: None, "lambda"),
    ],
)
def test_what_is_no_handler_is_refused(app: Holdfast, thing: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        app.task(thing)


def test_a_named_object_may_be_a_handler(app: Holdfast) -> None:
    assert app.task(name="object")(Callable_()).run_in == "loop"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run_in": "fork"}, "loop, thread or process"),
        ({"run_in": "loop"}, "async def"),
        ({"aliases": "old"}, "aliases must be a list"),
        ({"name": ""}, "name"),
        ({"retry": 0}, "retry"),
        ({"timeout": -1}, "timeout"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(
    app: Holdfast, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        app.task(**options)(add.fn)


def test_a_process_cannot_import_a_local_function(app: Holdfast) -> None:
    with pytest.raises(InvalidArgument, match="module level"):

        @app.task(run_in="process")
        def local() -> None: ...


def test_a_context_needs_a_place(app: Holdfast) -> None:
    with pytest.raises(InvalidArgument, match="first argument"):
        app.task(context=True, name="x")(lambda: None)  # type: ignore[arg-type,misc]


def test_tasks_are_pickled_by_reference_as_functions_are() -> None:
    assert pickle.loads(pickle.dumps(add)) is add  # noqa: S301
