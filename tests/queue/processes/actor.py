"""One process with a queue: does what lines of JSON on its input ask, and tells what happens on its output.

    in   {"n": 1, "do": "verb", "name": "complete_job", "args": ["j"], "kwargs": {}}
    out  {"n": 1, "answer": null}, or {"n": 1, "error": "LeaseLost", "message": "..."}
    out  {"event": "batch", "stream": "s", "jobs": [["j", "lease"]]}, and "cancel", "lost", "ended"

Ends in order, its queue closed, when the input ends or on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from holdfast import Job, Queue, SyncQueue, Verdict
from holdfast.errors import HoldfastError
from holdfast.queue.faces import Stream, SyncStream

R = TypeVar("R")
Message = dict[str, Any]

_saying = threading.Lock()


def say(**message: Any) -> None:
    with _saying:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def tell_of(batch: list[Job], stream: str) -> None:
    say(event="batch", stream=stream, jobs=[(job.id, job.lease_id) for job in batch])


class SyncHand:
    """A `SyncQueue`; every stream is read by a thread of its own."""

    def __init__(self, dsn: str, options: Message) -> None:
        self._queue = SyncQueue(dsn, **options)
        self._queue.open()
        self._streams: dict[str, SyncStream] = {}
        self._readers: list[threading.Thread] = []

    def verb(self, name: str, args: list[Any], kwargs: Message) -> Any:
        return getattr(self._queue, name)(*args, **kwargs)

    def stream(self, name: str, args: list[Any], kwargs: Message) -> None:
        stream = self._streams[name] = self._queue.stream_jobs(*args, **kwargs)
        stream.on_cancel(lambda job_id: say(event="cancel", stream=name, job=job_id))
        stream.on_lost(lambda job_id: say(event="lost", stream=name, job=job_id))

    def read(self, name: str) -> None:
        reader = threading.Thread(target=self._read, args=[name])
        reader.start()
        self._readers.append(reader)

    def _read(self, name: str) -> None:
        for batch in self._streams[name]:
            tell_of(batch, name)
        say(event="ended", stream=name)

    def end(self, name: str) -> None:
        self._streams[name].close()

    def close(self) -> None:
        self._queue.close()
        for reader in self._readers:
            reader.join()


class AsyncHand:
    """A `Queue` on a loop of its own thread; every stream is read by a task of its own."""

    def __init__(self, dsn: str, options: Message) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._streams: dict[str, Stream] = {}
        self._readers: list[asyncio.Task[None]] = []
        try:
            self._queue = self._wait(self._open(dsn, options))
        except BaseException:
            self._stop()
            raise

    async def _open(self, dsn: str, options: Message) -> Queue:
        queue = Queue(dsn, **options)
        await queue.open()
        return queue

    def verb(self, name: str, args: list[Any], kwargs: Message) -> Any:
        return self._wait(getattr(self._queue, name)(*args, **kwargs))

    def stream(self, name: str, args: list[Any], kwargs: Message) -> None:
        self._wait(self._stream(name, args, kwargs))

    async def _stream(self, name: str, args: list[Any], kwargs: Message) -> None:
        stream = self._streams[name] = self._queue.stream_jobs(*args, **kwargs)
        stream.on_cancel(lambda job_id: say(event="cancel", stream=name, job=job_id))
        stream.on_lost(lambda job_id: say(event="lost", stream=name, job=job_id))

    def read(self, name: str) -> None:
        self._wait(self._begin_to_read(name))

    async def _begin_to_read(self, name: str) -> None:
        self._readers.append(asyncio.create_task(self._read(name)))

    async def _read(self, name: str) -> None:
        async for batch in self._streams[name]:
            tell_of(batch, name)
        say(event="ended", stream=name)

    def end(self, name: str) -> None:
        self._wait(self._streams[name].aclose())

    def close(self) -> None:
        self._wait(self._close())
        self._stop()

    async def _close(self) -> None:
        await self._queue.close()
        await asyncio.gather(*self._readers)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class Actor:
    """Does what it is told, one thing at a time."""

    def __init__(self) -> None:
        self._hand: SyncHand | AsyncHand | None = None

    def do(self, message: Message) -> Any:
        match message["do"]:
            case "open":
                make = AsyncHand if message["face"] == "async" else SyncHand
                self._hand = make(message["dsn"], message["options"])
                return os.getpid()
            case "close":
                return self.close()
            case "enqueue":
                jobs = [Job(**_understood(job)) for job in message["jobs"]]
                return self._open_hand.verb("enqueue_jobs", [jobs], {})
            case "verb":
                args, kwargs = _understood(message["args"]), _understood(message["kwargs"])
                return _sayable(self._open_hand.verb(message["name"], args, kwargs))
            case "stream":
                self._open_hand.stream(message["name"], message["args"], message["kwargs"])
            case "read":
                self._open_hand.read(message["name"])
            case "end":
                self._open_hand.end(message["name"])
            case unknown:
                raise AssertionError(unknown)
        return None

    def close(self) -> list[str]:
        """Close the queue; name the threads that are left over."""
        hand, self._hand = self._hand, None
        if hand is not None:
            hand.close()
        return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]

    @property
    def _open_hand(self) -> SyncHand | AsyncHand:
        assert self._hand is not None
        return self._hand


def _understood(value: Any) -> Any:
    """A moment travels as the seconds until it comes."""
    match value:
        case {"in_s": seconds}:
            return datetime.now(UTC) + timedelta(seconds=seconds)
        case dict():
            return {key: _understood(each) for key, each in value.items()}
        case list():
            return [_understood(each) for each in value]
        case _:
            return value


def _sayable(value: Any) -> Any:
    match value:
        case Job() | Verdict():
            return {key: _sayable(each) for key, each in asdict(value).items()}
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return [_sayable(each) for each in value]
        case _:
            return value


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    actor = Actor()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        for line in sys.stdin:
            message = json.loads(line)
            try:
                answer = actor.do(message)
            except HoldfastError as error:
                say(n=message["n"], error=type(error).__name__, message=str(error))
            else:
                say(n=message["n"], answer=answer)
    finally:
        actor.close()


if __name__ == "__main__":
    main()
