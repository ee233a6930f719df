"""A line that is read where its signals are acted on, while the thread it belongs to sleeps.

A signal that one thread hears and hands to another costs two wake-ups, and the other waits for the
interpreter until the first sleeps again. Whoever acts on signals is their host, and reads them itself.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from holdfast.store.line import Line


class Host(Protocol):
    """Somebody who waits for many things, and can wait for a descriptor as well. Asked from any thread."""

    def watch(self, descriptor: int, hear: Callable[[], None]) -> bool:
        """Call `hear` whenever there is something to read; False if the host is gone."""
        ...

    def unwatch(self, descriptor: int) -> None:
        """Watch it no more, and close it."""
        ...


@dataclass(frozen=True, slots=True)
class LoopHost:
    """An event loop as a host."""

    loop: asyncio.AbstractEventLoop

    def watch(self, descriptor: int, hear: Callable[[], None]) -> bool:
        try:
            self.loop.call_soon_threadsafe(self.loop.add_reader, descriptor, hear)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def unwatch(self, descriptor: int) -> None:
        try:
            self.loop.call_soon_threadsafe(self._unwatch, descriptor)
        except RuntimeError:
            os.close(descriptor)

    def _unwatch(self, descriptor: int) -> None:
        self.loop.remove_reader(descriptor)
        os.close(descriptor)


class Reader:
    """One host, and the line it reads if there is one. Its methods are for the thread of the line."""

    def __init__(
        self, host: Host, pass_on: Callable[[Mapping[str, str]], object], wake_thread: Callable[[], None]
    ) -> None:
        self._host = host
        self._pass_on = pass_on
        self._wake_thread = wake_thread
        self._failure: Exception | None = None
        self._line: Line | None = None
        self._descriptor: int | None = None
        self.speaking = threading.Lock()
        """Held by whoever uses the line."""

    def attend(self, line: Line) -> bool:
        """Begin to read a line; False if the host is gone, then the thread has to."""
        # A descriptor of its own: the host still watches it for a moment after the line was closed.
        descriptor = os.dup(line.descriptor)
        self._line, self._descriptor = line, descriptor
        if not self._host.watch(descriptor, self._hear):
            os.close(descriptor)
            self._line = self._descriptor = None
        return self._line is not None

    def check(self) -> None:
        """Raise what the host met when it read the line, if it met something."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def leave(self) -> None:
        """Read no more; the line may be closed after this."""
        with self.speaking:
            self._line = None
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._host.unwatch(descriptor)

    def abandon(self) -> None:
        """In a child process: let go of what is the parent's."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
        self._line = self._descriptor = None

    def _hear(self) -> None:
        """The host's."""
        if not self.speaking.acquire(blocking=False):
            return  # the thread hears what comes while it speaks, and passes it on
        try:
            fired = {} if self._line is None else self._line.heard()
        except Exception as error:  # whatever it is: the thread says so, and connects anew
            fired, self._failure = {}, error
        finally:
            self.speaking.release()
        if fired:
            self._pass_on(fired)
        elif self._failure is not None:
            self.leave()  # else the host would hear of it again and again until the thread has
            self._wake_thread()
