"""One child as the worker sees it: a process, its pipe, and the job it has in hand."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from holdfast.domain.job import JsonValue
from holdfast.worker.children import frames
from holdfast.worker.children.frames import Frame
from holdfast.worker.children.link import Link
from holdfast.worker.children.spawning import Order, Plan, describe_exit, spawn
from holdfast.worker.children.values import ChildReply, Died, Raised, Returned

PIPE_GRACE_S = 1.0
"""How long a child may live without its pipe: at a normal end the pipe goes a moment before the process."""

_log = logging.getLogger("holdfast.worker.children")


class ChildProcess:
    """A child from its start to its end. Make it, and use it, in the thread of the running loop.

    It is killed with that thread: the kernel's promise to end a child with its parent is bound to the thread
    that started it.
    """

    def __init__(self, plan: Plan) -> None:
        """Start the process; raise OSError if the system has none to give."""
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Raised | Died | None] = self._loop.create_future()
        """None once it can take jobs, or why it never will."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the process is no more and all it had is given back."""
        self.jobs = 0
        self.rss_bytes = 0
        self.over: asyncio.Future[ChildReply] = self._loop.create_future()
        """The answer to the latest job."""
        self._order: Order | None = None
        self._started = False
        self._why: str | None = None
        self._fault: str | None = None
        self._killed = False
        self._kill_timer: asyncio.TimerHandle | None = None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = spawn(plan, theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self.pid = self._process.pid
        self._link = Link(ours, self._on_frame, self._on_pipe_fault)
        self._watcher = threading.Thread(target=self._watch, name=f"holdfast-child-{self.pid}", daemon=True)
        try:
            self._watcher.start()
        except RuntimeError as error:  # the system has no thread to give
            self._kill_group()
            self._process.wait()
            self._link.close()
            raise OSError(str(error)) from error
        hello = {"op": "hello", "target": plan.target, "sys_path": sys.path, "log_level": plan.log_level}
        self._link.send(frames.to_bytes(hello))

    @property
    def is_reusable(self) -> bool:
        """Whether it may get another job. Not after a stop: a late signal would hit that other job."""
        return not self.gone.done() and self._why is None and self._fault is None and not self._killed

    def begin(self, order: Order) -> asyncio.Future[ChildReply]:
        """Have it do a job; the answer comes when the job is over, or the child."""
        self.jobs += 1
        self._order, self._started = order, False
        self.over = self._loop.create_future()
        if self.gone.done():
            self._conclude()
        self._link.send(order.data)
        return self.over

    def tell_shutdown(self) -> None:
        """Let its handlers know that the worker is about to stop."""
        self._link.send(frames.to_bytes({"op": "shutdown"}))

    def stop(self, why: str) -> None:
        """SIGTERM now, SIGKILL if that does not help. A second stop changes nothing."""
        if self._why is not None or self.gone.done():
            return
        self._why = why
        self._link.send(frames.to_bytes({"op": "stop", "why": why}))
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGTERM)
        self._kill_later()

    def retire(self) -> None:
        """Let it go: it ends by itself, or is killed."""
        if not self.gone.done():
            self._link.close()
            self._kill_later()

    def kill(self) -> None:
        """SIGKILL, to the child and to whatever it has started in its own group."""
        if not self.gone.done():
            self._killed = True
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _kill_later(self) -> None:
        if self._kill_timer is None:
            self._kill_timer = self._loop.call_later(self._plan.kill_after_s, self.kill)

    def _on_frame(self, frame: Frame) -> None:
        try:
            self._take(frame)
        except (KeyError, TypeError, ValueError) as error:
            self._on_pipe_fault(f"wrote a message that makes no sense: {type(error).__name__}: {error}")

    def _take(self, frame: Frame) -> None:
        match frame["op"]:
            case "ready":
                self._set_ready(None)
            case "unready":
                self._set_ready(_raised(frame, ran=False))
            case "started" | "message" | "returned" | "raised" as op:
                if self._order is not None and frame["n"] == self._order.number:
                    self._take_from_job(op, frame, self._order.job_id)
            case op:
                raise ValueError(f"unknown message {op!r}")

    def _take_from_job(self, op: str, frame: Frame, job_id: str) -> None:
        match op:
            case "started":
                self._started = True
                self._pass_on(job_id, {"type": "started"})
            case "message":
                self._pass_on(job_id, frame["message"])
            case "returned":
                self._finish(Returned(frame["result"]), int(frame["rss"]))
            case _:
                self._finish(_raised(frame), int(frame["rss"]))

    def _pass_on(self, job_id: str, message: Mapping[str, JsonValue]) -> None:
        if self._plan.on_message is None:
            return
        try:
            self._plan.on_message(job_id, message)
        except Exception:
            _log.exception("job %s: a message of its handler was not taken; the job goes on", job_id)

    def _set_ready(self, trouble: Raised | Died | None) -> None:
        if not self.ready.done():
            self.ready.set_result(trouble)

    def _finish(self, reply: ChildReply, rss_bytes: int | None = None) -> None:
        if rss_bytes is not None:
            self.rss_bytes = rss_bytes
        self._order = None
        self.over.set_result(reply)

    def _on_pipe_fault(self, what: str | None) -> None:
        """A child without a pipe is of no use; what it had in hand is told when the process is gone."""
        if what is None:
            self._loop.call_later(PIPE_GRACE_S, self._end_without_pipe)
        else:
            self._fault = self._fault or what
            self.kill()

    def _end_without_pipe(self) -> None:
        if not self.gone.done():
            self._fault = self._fault or "closed its pipe without an answer"
            self.kill()

    def _watch(self) -> None:
        """Wait for the end of the process, in a thread: the only way that works on every system and loop."""
        if hasattr(os, "waitid"):
            # Its number stays taken until the loop has seen it, so that no signal can go to a stranger.
            with suppress(ChildProcessError):  # somebody else has collected it, or asked the system to
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        try:
            self._loop.call_soon_threadsafe(self._on_exit)
        except RuntimeError:  # the loop is closed, and with it the pool lost
            self._process.wait()

    def _on_exit(self) -> None:
        self._link.drain()  # it may have answered before it died
        if self._order is not None:
            self._kill_group()  # what a crashed handler had started has nobody left to end it
        self._process.wait()
        self._watcher.join()
        self._link.close()
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self.gone.set_result(None)
        self._conclude()

    def _conclude(self) -> None:
        description = self._fault or describe_exit(self._process.returncode, by_us=self._killed)
        self._set_ready(Died(f"{description} while it started", ran=False))
        if self._order is not None:
            self._finish(Died(description, self._why, ran=self._started))


def _raised(frame: Mapping[str, Any], *, ran: bool = True) -> Raised:
    return Raised(
        kind=str(frame["kind"]),
        message=str(frame["message"]),
        traceback=str(frame["traceback"]),
        control=frame["control"],
        lineage=tuple(map(str, frame["lineage"])),
        ran=ran,
    )
