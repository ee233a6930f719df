"""The program of a child. Its arguments: the descriptor of its pipe, and the number of its parent.

The main thread runs handlers, so that a signal can stop them; another thread reads the pipe. Standard output
and error are the worker's own and carry nothing of ours. When the worker is gone, so is the child, whatever
it does at that moment.
"""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, cast

from holdfast.domain.content import encode_json
from holdfast.domain.job import JsonValue
from holdfast.errors import PayloadError
from holdfast.worker.children import capture, frames
from holdfast.worker.children.channel import Channel
from holdfast.worker.children.context import ChildContext, LogForwarder
from holdfast.worker.children.frames import Frame
from holdfast.worker.children.memory import resident_bytes
from holdfast.worker.children.stopping import StopSwitch
from holdfast.worker.children.target import Runner, Untargetable, resolve

LOOK_S = 0.1
"""How often a child without its pipe looks whether its worker is still there to see it out."""


def main() -> None:
    """Serve one worker until it lets go."""
    descriptor, parent = map(int, sys.argv[1:3])
    die_with(parent)
    _show_what_happens()
    Child(descriptor, parent).serve()


class Child:
    """One job after the other."""

    def __init__(self, descriptor: int, parent: int) -> None:
        self._parent = parent
        self._switch = StopSwitch()
        self._switch.install()
        self._channel = Channel(descriptor, self._switch)
        self._inbox: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._logs = LogForwarder(logging.NOTSET)
        self._job = 0  # the number of the job that runs, 0 for none
        self._working = False  # from the arrival of a job until its answer is ready
        self._context: ChildContext | None = None
        self._shutting_down = False
        self._pid = os.getpid()

    def serve(self) -> None:
        """Find the app, then run what comes."""
        threading.Thread(target=self._listen, name="holdfast-pipe", daemon=True).start()
        hello = self._inbox.get()
        runner = self._prepare(hello) if hello is not None else None
        while runner is not None and (frame := self._inbox.get()) is not None:
            self._run(runner, frame)

    def _prepare(self, hello: Frame) -> Runner | None:
        sys.path[:] = hello["sys_path"]
        logging.getLogger().addHandler(self._logs)
        logging.getLogger().setLevel(hello["log_level"])
        try:
            runner = resolve(hello["target"])
        except Untargetable as error:
            cause = error.__cause__ or error
            self._send("unready", 0, {**capture.captured(cause), "message": str(error)})
            return None
        self._send("ready", 0, {})
        return runner

    def _run(self, runner: Runner, frame: Frame) -> None:
        number = self._job = cast("int", frame["n"])

        def say(message: Mapping[str, object]) -> None:
            if self._job == number:  # a thread that outlives its job has nothing to say about the next one
                self._send("message", number, {"message": message})

        context = ChildContext(frame, say, self._switch, lambda: self._shutting_down)
        self._context, self._logs.say = context, say
        self._send("started", number, {})
        answer = self._answer(runner, frame["payload"], context)
        if os.getpid() != self._pid:
            os._exit(0)  # the handler forked, and this is the copy: it has no pipe and nobody to answer
        context.report(now=True)
        self._context = self._logs.say = None
        self._job = 0
        self._working = False
        _flush()
        self._channel.send(answer)

    def _answer(self, runner: Runner, payload: JsonValue, context: ChildContext) -> bytes:
        try:
            try:
                self._switch.arm()
                result = runner.execute(context.task, payload, context)
                if isinstance(result, Coroutine):
                    result = _run_coroutine(cast("Coroutine[Any, Any, object]", result), self._switch)
            finally:
                self._switch.disarm()
        except BaseException as error:
            return _raised(self._job, capture.captured(error, self._switch.why))
        return _returned(self._job, result)

    def _send(self, op: str, number: int, fields: Mapping[str, object]) -> None:
        self._channel.send(frames.to_bytes({"op": op, "n": number, **fields}))

    def _listen(self) -> None:
        # Or a signal might wake this thread, and leave the main one asleep in the handler.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        self._channel.read(self._receive, self._tick)
        self._inbox.put(None)
        # As long as the worker lives, it decides how long exit functions and threads of the app may take.
        # When it does not, nobody must meet us still at the job that another worker takes over.
        while os.getppid() == self._parent:
            time.sleep(LOOK_S)
        os._exit(0)

    def _receive(self, frame: Frame) -> None:
        match frame["op"]:
            case "stop":
                self._switch.ask(frame["why"])
            case "shutdown":
                self._shutting_down = True
            case op:
                self._working = op == "job"
                self._inbox.put(frame)

    def _tick(self) -> bool:
        context = self._context
        if context is not None:
            context.report()
        self._switch.remind()
        return self._working


def die_with(parent: int) -> None:
    """Have the kernel kill us when the parent's thread that started us ends; end now if it has already.

    On systems that make no such promise, the end of the pipe must do.
    """
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            set_parent_death_signal = 1
            ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _run_coroutine(coroutine: Coroutine[Any, Any, object], switch: StopSwitch) -> object:
    """Run an async handler; a stop is then a CancelledError where it awaits, as in the worker's own loop."""
    import asyncio  # late: it takes longer to import than all the rest

    async def run() -> object:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def cancel(why: str) -> None:
            with suppress(RuntimeError):  # the loop has just closed
                if task is not None:
                    loop.call_soon_threadsafe(task.cancel, why)

        switch.deliver_by(cancel)
        return await coroutine

    return asyncio.run(run())


def _returned(number: int, result: object) -> bytes:
    try:
        text = encode_json(result, where="result", limit=frames.FRAME_BYTES - 1024)
    except PayloadError as error:
        return _raised(number, capture.permanent(error, f"{type(result).__name__} as {error}"))
    except BaseException as error:  # the result may be of a class that fights back
        return _raised(number, capture.captured(error))
    return frames.from_text(f'{{"op":"returned","n":{number},"rss":{resident_bytes()},"result":{text}}}')


def _raised(number: int, fields: Mapping[str, object]) -> bytes:
    return frames.to_bytes({"op": "raised", "n": number, "rss": resident_bytes(), **fields})


def _show_what_happens() -> None:
    """Let what handlers print be seen even if the child dies the next moment, and where it crashed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    with suppress(Exception):
        faulthandler.enable()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


if __name__ == "__main__":
    main()
