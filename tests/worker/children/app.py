"""An app of the simplest kind, for children to run: a task is a function of this module."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.domain.control import PermanentError, RetryAfter, Snooze
from holdfast.errors import JobCancelled
from holdfast.worker.children.context import ChildContext

HOARD: list[bytearray] = []


class App:
    """Finds a task by its name."""

    def execute(self, task: str, payload: Any, context: ChildContext) -> object:
        return globals()[task](payload, context)


app = App()


def echo(payload: Any, context: ChildContext) -> Any:
    return payload


async def echo_async(payload: Any, context: ChildContext) -> Any:
    await asyncio.sleep(0)
    return payload


def who(payload: Any, context: ChildContext) -> int:
    return os.getpid()


def facts(payload: Any, context: ChildContext) -> dict[str, object]:
    return {
        "job_id": context.job_id,
        "task": context.task,
        "attempt": context.attempt,
        "deadline_s": context.deadline_s,
        "meta": dict(context.meta),
        "directory": os.getcwd(),
        "path": sys.path,
        "thread": threading.current_thread() is threading.main_thread(),
        "session": os.getsid(0) == os.getpid(),
    }


def meet(payload: Any, context: ChildContext) -> int:
    """Return when so many jobs are here at once."""
    place = Path(payload["place"])
    (place / context.job_id).touch()
    while len(list(place.iterdir())) < payload["jobs"]:
        time.sleep(0.005)
    return os.getpid()


def die(payload: Any, context: ChildContext) -> None:
    os.kill(os.getpid(), signal.Signals[payload])


def exit_now(payload: Any, context: ChildContext) -> None:
    os._exit(payload)


def segfault(payload: Any, context: ChildContext) -> None:
    ctypes.string_at(0)


def overflow_stack(payload: Any, context: ChildContext) -> None:
    """Recurse through C until there is no stack left."""
    sys.setrecursionlimit(10**9)
    gc.disable()  # it would walk the list again and again while it is made
    deep: list[Any] = []
    for _ in range(10**6):
        deep = [deep]
    repr(deep)


def recurse(payload: Any, context: ChildContext) -> None:
    recurse(payload, context)


def use_all_memory(payload: Any, context: ChildContext) -> None:
    raise MemoryError


def hoard(payload: Any, context: ChildContext) -> int:
    HOARD.append(bytearray(b"x" * payload))
    return os.getpid()


def sleep(payload: Any, context: ChildContext) -> None:
    context.progress(0)
    time.sleep(600)


def sleep_past_the_signal(payload: Any, context: ChildContext) -> None:
    """Go to sleep just when the signal has been delivered, and Python has not seen it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    context.progress(0)
    signal.sigwait({signal.SIGTERM})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    time.sleep(600)


def sleep_stubbornly(payload: Any, context: ChildContext) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep(payload, context)


def clean_up_when_stopped(payload: Any, context: ChildContext) -> None:
    try:
        sleep(payload, context)
    except JobCancelled as error:
        Path(payload).write_text(f"{error} {context.cancelled()}")
        raise


def return_when_stopped(payload: Any, context: ChildContext) -> str:
    with suppress(JobCancelled):
        sleep(payload, context)
    return "done anyway"


def fail_when_stopped(payload: Any, context: ChildContext) -> None:
    try:
        sleep(payload, context)
    except JobCancelled:
        raise ValueError("could not clean up") from None


def chatter_until_stopped(payload: Any, context: ChildContext) -> None:
    while True:
        context.log("x" * 50_000)


async def sleep_async(payload: Any, context: ChildContext) -> None:
    context.progress(0)
    await asyncio.sleep(600)


def wait_for_shutdown(payload: Any, context: ChildContext) -> bool:
    context.progress(0)
    while not context.shutting_down():
        time.sleep(0.005)
    return context.cancelled()


def answer_and_die(payload: Any, context: ChildContext) -> str:
    wait_for_shutdown(payload, context)
    threading.Timer(0.05, os._exit, [1]).start()
    return "answered"


def start_a_program(payload: Any, context: ChildContext) -> None:
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    context.progress(program.pid)
    if payload == "wait":
        program.wait()
    os._exit(1)


def fork_and_die(payload: Any, context: ChildContext) -> None:
    """Die with a fork left behind, as a pool of processes in a handler would be."""
    copy = os.fork()
    if copy == 0:
        os.setsid()
        time.sleep(600)
    context.progress(copy)
    os.kill(os.getpid(), signal.SIGKILL)


def fork(payload: Any, context: ChildContext) -> None:
    """Return twice."""
    copy = os.fork()
    if copy == 0:
        context.log("from the copy")
    else:
        os.waitpid(copy, 0)


def report_often(payload: Any, context: ChildContext) -> None:
    for number in range(payload + 1):
        context.progress(number, payload, "counting")


def report_twice_then_wait(payload: Any, context: ChildContext) -> None:
    context.progress(1)
    context.progress(2)
    while not context.shutting_down():
        time.sleep(0.005)


def log(payload: Any, context: ChildContext) -> None:
    context.log("from the context", order=7, where=Path("shelf"))
    logging.getLogger("shop").warning("from %s", "logging")
    logging.getLogger("shop").debug("too quiet")
    try:
        raise ValueError("wrong")
    except ValueError:
        logging.getLogger("shop").exception("with a traceback")


def speak_up_later(payload: Any, context: ChildContext) -> None:
    """Leave a thread behind that talks about this job while the next one runs."""
    threading.Thread(target=_talk, args=(context,), daemon=True).start()


def _talk(context: ChildContext) -> None:
    while True:
        context.log("stale")
        time.sleep(0.001)


def pause(payload: Any, context: ChildContext) -> None:
    time.sleep(payload)


def talk(payload: Any, context: ChildContext) -> str:
    print("to stdout")
    print("to stderr", file=sys.stderr)
    os.write(1, b"raw to stdout\n")
    print("without an end", end="")
    return "answered"


def print_and_die(payload: Any, context: ChildContext) -> None:
    print("last words")
    os._exit(0)


def _pipe() -> int:
    """The descriptor of the child's own pipe."""
    return int(sys.argv[1])


def write_garbage(payload: Any, context: ChildContext) -> None:
    os.write(_pipe(), payload.encode("latin-1"))
    time.sleep(600)


def close_pipe(payload: Any, context: ChildContext) -> None:
    os.close(_pipe())
    time.sleep(600)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


def raise_kind(payload: Any, context: ChildContext) -> None:
    raise {
        "SystemExit": SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "GeneratorExit": GeneratorExit(),
        "CancelledError": asyncio.CancelledError(),
        "Unprintable": Unprintable(),
        "Surrogate": ValueError("half \ud800 and \0"),
        "KeyError": KeyError("name"),
        "RetryAfter": RetryAfter(7.5, "rate limit"),
        "Snooze": Snooze(60),
        "PermanentError": PermanentError("no such customer"),
        "JobCancelled": JobCancelled("I give up"),
    }[payload]


async def raise_kind_async(payload: Any, context: ChildContext) -> None:
    await asyncio.sleep(0)
    raise_kind(payload, context)


class Hostile(dict[str, object]):
    def items(self) -> Any:
        raise SystemExit("never")


def return_unsendable(payload: Any, context: ChildContext) -> object:
    return {"set": {1, 2}, "nested": {"when": [{3}]}, "hostile": Hostile(a=1)}[payload]


def forget_parent(payload: Any, context: ChildContext) -> None:
    """Have the kernel forget its promise to end this child with its parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)


def sleep_without_letting_go(payload: Any, context: ChildContext) -> None:
    """Hold the lock of the interpreter all the while."""
    ctypes.PyDLL(None).sleep(600)


def leave_a_thread(payload: Any, context: ChildContext) -> None:
    """Be idle afterwards, and unable to end in an orderly way."""
    threading.Thread(target=time.sleep, args=(600,)).start()
