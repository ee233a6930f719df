"""What handlers can do to the worker they run in. Each is a job like any other, and behaves the next time."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from random import Random

import psycopg
from psycopg.types.json import Jsonb

from gauntlet.arena.arena import Arena
from gauntlet.faults.registry import fault
from gauntlet.history import NO, OK, UNKNOWN

_numbers = itertools.count(1)

SUBMIT = """
select job_id from holdfast.submit_job(%s, 'nemesis', %s, p_task => %s, p_priority => 50,
  p_payload => jsonb_build_object('args', %s::jsonb), p_timeout => %s)
"""
TASKS = {"loop": "misbehave", "thread": "misbehave_in_thread", "child": "misbehave_in_child"}
TIMEOUTS = {"loop": None, "thread": 1.0, "child": 10.0}


def enqueue(
    arena: Arena, task: str, argument: str | float, queue: str, timeout_s: float | None = None
) -> None:
    """A job of the harness, journaled like everybody's."""
    name = f"{task}-{str(argument).replace(' ', '_')}-{next(_numbers)}"
    number = arena.journal.call("submit", [[name, {}]])
    said = UNKNOWN
    try:
        with arena.connect() as conn:
            conn.execute(SUBMIT, [name, queue, f"gauntlet.load.app.{task}", Jsonb([argument]), timeout_s])
        said = OK
    except psycopg.OperationalError:
        pass
    except psycopg.Error:
        said = NO
    finally:
        arena.journal.reply(number, said)


def _evil(name: str, does: str, how: str, queue: str, undone: str = "the job behaves the next time") -> None:
    def act(arena: Arena, rng: Random) -> Generator[float]:
        enqueue(arena, TASKS[queue], how, queue, TIMEOUTS[queue])
        yield 0

    fault(name, does, undone=undone)(act)


_evil("event loop blocked", "a handler sleeps on the event loop, longer than the lease", "block", "loop")
_evil("handler leaks", "a handler leaks 16 MB and a descriptor", "leak", "loop")
_evil("handler exits the worker", "os._exit in a handler on the event loop", "exit", "loop")
_evil("handler crashes the worker", "a segmentation fault in a thread of the worker", "segfault", "thread")
_evil("child exits", "os._exit in a child process", "exit", "child")
_evil("child crashes", "a segmentation fault in a child process", "segfault", "child")
_evil("child overflows its stack", "recursion without an end in a child process", "overflow", "child")
_evil(
    "child runs out of memory", "a handler asks for more memory than its process may have", "memory", "child"
)
_evil(
    "child closes its descriptors",
    "a handler closes what its process talks through",
    "close descriptors",
    "child",
)
_evil("handler raises SystemExit", "SystemExit in a thread", "system exit", "thread")
_evil("handler raises KeyboardInterrupt", "KeyboardInterrupt in a thread", "interrupt", "thread")
_evil("handler ignores its timeout", "a thread that sleeps on when its time is over", "stubborn", "thread")
_evil("error that cannot be stored", "NUL, a lone surrogate and 200 kB in an error", "unstorable", "loop")
_evil("result that is too large", "3 MB of result", "huge", "thread")
_evil("result that is no JSON", "a handler returns an object", "object", "loop")
