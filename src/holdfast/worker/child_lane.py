"""Running handlers in processes of their own: how a job gets there, and how its end is judged here."""

from __future__ import annotations

import json
import logging
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from holdfast.domain.control import PermanentError, RetryAfter, Snooze
from holdfast.domain.retry import Retry
from holdfast.errors import InvalidArgument, JobCancelled
from holdfast.tasks.naming import module_name
from holdfast.tasks.task import Task
from holdfast.worker import child_side, endings
from holdfast.worker.children import ChildPool
from holdfast.worker.children.values import ChildReply, ChildRequest, Died, Raised, Returned

if TYPE_CHECKING:
    from holdfast.worker.execution import Execution
    from holdfast.worker.settings import Settings

Find = Callable[[str], "Execution | None"]


class ChildLane:
    """The child processes of one worker. `find` tells the execution of a job, for what its child says."""

    def __init__(self, target: str, size: int, settings: Settings, find: Find) -> None:
        self._find = find
        self._pool = ChildPool(
            size=size,
            target=target,
            kill_after_s=settings.kill_after,
            max_jobs=settings.child_max_jobs,
            max_rss_bytes=settings.child_max_rss,
            on_message=self._hear,
        )
        self.announce_shutdown = self._pool.announce_shutdown
        self.close = self._pool.close

    async def run(self, execution: Execution, task: Task[..., Any]) -> endings.Ended:
        """Run a job in a child and tell its end as if the handler had run here."""
        job = execution.job
        request = ChildRequest(
            job_id=job.job_id,
            task=task.name,
            payload=job.payload,
            attempt=job.attempts + 1,
            deadline_s=execution.timeout_s,
            meta={"tags": list(job.tags)},
        )
        execution.stop_by(lambda: self._pool.stop_job(job.job_id, str(execution.context.stop)))
        try:
            return ended_of(await self._pool.run(request), execution.retry)
        finally:
            execution.stop_by(None)

    def _hear(self, job_id: str, message: Mapping[str, Any]) -> None:
        execution = self._find(job_id)
        if execution is None:
            return
        match message["type"]:
            case "started":
                execution.start_timer()
            case "progress":
                execution.context.progress(message["done"], message["total"], message["message"])
            case "log":
                level = logging.getLevelNamesMapping().get(str(message["level"]), logging.INFO)
                name = str(message.get("logger") or "holdfast.job")
                about: dict[str, Any] = {
                    "event": "job.log",
                    "job_id": job_id,
                    "fields": message.get("fields") or {},
                }
                logging.getLogger(name).log(level, "%s", message["message"], extra=about)
            case _:
                pass


def ended_of(reply: ChildReply, retry: Retry) -> endings.Ended:
    """What a child answered; an exception is one that the policy judges as it would the original."""
    match reply:
        case Returned(result):
            return _returned(result)
        case Died(description):
            return endings.Died(f"the process that ran it was lost: {description}")
        case Raised():
            return endings.Raised(_error_of(reply, retry), reply.traceback)


def target_of(app: object, task: Task[..., Any]) -> str:
    """Where a child finds the app: the variable that holds it in the module of the task, or in any other."""
    own = sys.modules.get(str(task.fn.__module__))
    for module in [own, *list(sys.modules.values())]:
        if module is None:
            continue
        for name, value in list(vars(module).items()):
            if value is app:
                return f"{module_name(module.__name__)}:{name}"
    raise InvalidArgument(
        f'task "{task.name}" runs in a process of its own, which must find its app in a module: '
        "assign it to a name at the top of one, as in hf = Holdfast()"
    )


def _returned(result: object) -> endings.Ended:
    kind, content = cast("tuple[str, str]", result)
    match kind:
        case child_side.BYTES:
            return endings.Returned(b64decode(content))
        case child_side.JSON:
            return endings.Returned(json.loads(content))
        case _:
            return endings.Raised(endings.UnstorableResult(content), "")


def _error_of(raised: Raised, retry: Retry) -> BaseException:
    if raised.control is not None:
        return _control(raised.control, raised.message)
    name = raised.kind.rpartition(".")[2]
    kind = PermanentError if not _is_worth_it(raised, retry) else Exception
    # By the name of the original, which is what people look for; its class may not even exist here.
    return cast("BaseException", type(name, (kind,), {})(raised.message))


def _control(control: Mapping[str, Any], message: str) -> BaseException:
    delay_s, reason = control.get("delay_s") or 0.0, control.get("reason") or ""
    match control["kind"]:
        case "RetryAfter":
            return RetryAfter(delay_s, reason)
        case "Snooze":
            return Snooze(delay_s, reason)
        case "JobCancelled":
            return JobCancelled(message)
        case _:
            return PermanentError(message)


def _is_worth_it(raised: Raised, retry: Retry) -> bool:
    """`Retry.is_worth_it`, by the names of classes."""
    lineage = set(raised.lineage)
    if lineage & {_name(kind) for kind in retry.give_up_on}:
        return False
    wanted = {_name(kind) for kind in retry.on}
    return bool(lineage & wanted) or ("Exception" in wanted and "Exception" not in lineage)


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
