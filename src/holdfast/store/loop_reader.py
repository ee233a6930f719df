"""A line that is read on an event loop, while the thread it belongs to sleeps.

A signal that a thread hears and then hands to a loop costs two wake-ups, and the loop waits for the
interpreter until the thread sleeps again. Whoever acts on signals on a loop lets that loop read them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from holdfast.store.line import Line


class LoopReader:
    """One loop, and the line it reads if there is one. The methods are for the thread of the line."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pass_on: Callable[[Mapping[str, str]], object],
        wake_thread: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._pass_on = pass_on
        self._wake_thread = wake_thread
        self._failure: Exception | None = None
        self._line: Line | None = None
        self._descriptor: int | None = None
        self.speaking = threading.Lock()
        """Held by whoever uses the line."""

    def attend(self, line: Line) -> bool:
        """Begin to read a line; False if the loop is closed, then the thread has to."""
        # A descriptor of its own: the loop still watches it for a moment after the line was closed.
        descriptor = os.dup(line.descriptor)
        try:
            self._loop.call_soon_threadsafe(self._loop.add_reader, descriptor, self._hear)
        except RuntimeError:
            os.close(descriptor)
            return False
        self._line, self._descriptor = line, descriptor
        return True

    def check(self) -> None:
        """Raise what the loop met when it read the line, if it met something."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def leave(self) -> None:
        """Read no more; the line may be closed after this."""
        with self.speaking:
            self._line = None
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._unwatch, descriptor)
        except RuntimeError:
            os.close(descriptor)

    def abandon(self) -> None:
        """In a child process: let go of what is the parent's."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
        self._line = self._descriptor = None

    # The rest is the loop's.

    def _hear(self) -> None:
        if not self.speaking.acquire(blocking=False):
            return  # the thread hears what comes while it speaks, and passes it on
        try:
            fired = {} if self._line is None else self._line.heard()
        except Exception as error:  # whatever it is: the thread says so, and connects anew
            fired, self._failure = {}, error
            if self._descriptor is not None:
                self._loop.remove_reader(self._descriptor)
            self._wake_thread()
        finally:
            self.speaking.release()
        if fired:
            self._pass_on(fired)

    def _unwatch(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
