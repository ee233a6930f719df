"""What no stream can be asked for."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from math import inf, nan
from typing import Any

import pytest

from holdfast import Queue, SyncQueue
from holdfast.errors import InvalidArgument, QueueClosed
from tests.queue.streaming import Face

REFUSED: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("me", None, 0), {}, "max_assigned_jobs must be 1"),
    (("me", None, -1), {}, "max_assigned_jobs must be 1"),
    (("me", None, True), {}, "max_assigned_jobs must be a whole number"),
    (("me", None, 1.5), {}, "max_assigned_jobs must be a whole number"),
    (("me", None, None), {}, "max_assigned_jobs must be a whole number"),
    (("",), {}, "assignee_id is empty"),
    ((None,), {}, "assignee_id must be text"),
    ((True,), {}, "assignee_id must be text"),
    (("a\0b",), {}, "assignee_id"),
    (("me", "red"), {}, "tags must be a list of texts"),
    (("me", [""]), {}, "tags"),
    (("me", [1]), {}, "tags"),
    (("me", 5), {}, "tags must be a list of texts"),
    (("me",), {"queues": "mail"}, "queues must be a list of texts"),
    (("me",), {"queues": []}, "queues must name at least one queue"),
    (("me",), {"queues": [""]}, "queues"),
    (("me",), {"queues": ["q" * 41]}, "has 41 bytes; at most 40"),
    (("me",), {"lease": 0}, "lease must be more than 0"),
    (("me",), {"lease": -1}, "lease must be more than 0"),
    (("me",), {"lease": timedelta(seconds=-1)}, "lease must be more than 0"),
    (("me",), {"lease": "30"}, "lease must be a number"),
    (("me",), {"lease": True}, "lease must be a number"),
    (("me",), {"lease": nan}, "lease must be finite"),
    (("me",), {"lease": inf}, "lease must be finite"),
]


def test_what_no_stream_can_have_is_refused_at_the_call(side: Face, database: str) -> None:
    queue = side.open(database)
    for arguments, options, says in REFUSED:
        with pytest.raises(InvalidArgument, match=says):
            queue.stream_jobs(*arguments, **options)


def test_a_queue_that_is_not_open_has_no_streams(database: str) -> None:
    queue = SyncQueue(database)
    with pytest.raises(QueueClosed, match="not open"):
        queue.stream_jobs("me")
    with queue:
        pass
    with pytest.raises(QueueClosed, match="is closed"):
        queue.stream_jobs("me")


@pytest.mark.anyio
async def test_a_queue_of_asyncio_that_is_not_open_has_no_streams(database: str) -> None:
    queue = Queue(database)
    with pytest.raises(QueueClosed, match="not open"):
        queue.stream_jobs("me")
    async with queue:
        pass
    with pytest.raises(QueueClosed, match="is closed"):
        queue.stream_jobs("me")


def test_the_longest_queue_name_has_streams(side: Face, database: str) -> None:
    queue = side.open(database)
    assert side.stream(queue, queues=["q" * 40, "ä" * 20]).is_blocked(0.1)


@pytest.mark.parametrize("hook", ["on_cancel", "on_lost"])
def test_a_callback_that_cannot_be_called_is_refused_at_the_call(
    side: Face, database: str, hook: str
) -> None:
    stream = side.stream(side.open(database)).stream
    for given in (None, "x", 5):
        with pytest.raises(InvalidArgument, match=f"{hook} needs a function .*, not {given!r}"):
            getattr(stream, hook)(given)


class Later:
    async def __call__(self, job_id: str) -> None: ...


@pytest.mark.parametrize("hook", ["on_cancel", "on_lost"])
def test_a_callback_that_nobody_would_await_is_refused_for_threads_and_taken_on_a_loop(
    side: Face, database: str, hook: str
) -> None:
    stream = side.stream(side.open(database)).stream
    for given in (Later(), Later().__call__, partial(Later().__call__)):
        if side.name == "async":
            assert getattr(stream, hook)(given) is given
            continue
        with pytest.raises(InvalidArgument, match=f"{hook} needs a plain function"):
            getattr(stream, hook)(given)
