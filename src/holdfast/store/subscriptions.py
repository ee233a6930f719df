"""Who wants to hear which channels: an index, so that a signal costs only those it is for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.errors import InvalidArgument

logger: Final = logging.getLogger("holdfast.signals")

Callback = Callable[[Mapping[str, str]], None]
"""Takes the channels that had a signal, each with what the signal said; "" if there were several."""

NOTHING: Final[frozenset[str]] = frozenset()

LONGEST_CHANNEL: Final = 63
"""In bytes, as PostgreSQL's identifiers are; a LISTEN would cut off the rest and hear something else."""


class Subscription:
    """The channels that one callback is called for; change them at any time, from any thread."""

    def __init__(self, board: Switchboard, callback: Callback, changed: Callable[[], None]) -> None:
        self.channels: frozenset[str] = NOTHING
        self._board = board
        self._callback = callback
        self._changed = changed
        self._closed = False
        # Held while the callback runs, so that closing can wait for its end; again by the callback itself.
        self._calling = threading.RLock()

    def set_channels(self, channels: Iterable[str]) -> None:
        """Listen to these from now on. Each that is new is called for once, as soon as it is listened to."""
        wanted = frozenset(check_channels(channels))
        with self._board.lock:
            if self._closed:
                raise InvalidArgument("this subscription is closed")
            self._board.connect(self, wanted)
        self._changed()

    def close(self) -> None:
        """End it. After this returns the callback is not called, and does not run unless it called us.

        Waits for a callback that runs, so do not hold a lock that it takes.
        """
        with self._board.lock:
            self._closed = True
            self._board.connect(self, NOTHING)
        self._changed()
        with self._calling:
            pass

    def call(self, fired: Mapping[str, str]) -> None:
        """Tell of signals on those of the channels that are still wanted."""
        with self._calling:
            wanted = {channel: said for channel, said in fired.items() if channel in self.channels}
            if not wanted:
                return
            try:
                self._callback(wanted)
            except BaseException:  # what it raises is nobody else's to die of
                logger.exception("a callback for signals on %s failed; going on", ", ".join(sorted(wanted)))

    def forget_holder(self) -> None:
        """In a child process: nobody runs the callback here, whoever did so in the parent."""
        self._calling = threading.RLock()


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be done at the server, and who is to be told when it is done."""

    listen: frozenset[str]
    unlisten: frozenset[str]
    news: Mapping[Subscription, set[str]]

    def __bool__(self) -> bool:
        return bool(self.listen or self.unlisten or self.news)


class Switchboard:
    """All subscriptions of a connection. Take `lock` for what changes them; nothing here waits."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._subscribers: dict[str, dict[Subscription, None]] = {}
        self._touched: set[str] = set()
        self._news: dict[Subscription, set[str]] = {}
        self._listened: set[str] = set()

    def connect(self, subscription: Subscription, wanted: frozenset[str]) -> None:
        """Give a subscription these channels. The caller holds the lock."""
        before, subscription.channels = subscription.channels, wanted
        for channel in before - wanted:
            others = self._subscribers[channel]
            del others[subscription]
            if not others:
                del self._subscribers[channel]
                self._touch(channel, channel in self._listened)
        for channel in wanted - before:
            if channel not in self._subscribers:
                self._subscribers[channel] = {}
                self._touch(channel, channel not in self._listened)
            self._subscribers[channel][subscription] = None
        # No more than what is wanted now: where nobody listens, nobody takes the changes either.
        if news := (self._news.pop(subscription, set()) | (wanted - before)) & wanted:
            self._news[subscription] = news

    def _touch(self, channel: str, differs: bool) -> None:
        """Note whether what is wanted of a channel differs from what is listened to."""
        if differs:
            self._touched.add(channel)
        else:
            self._touched.discard(channel)

    def start_anew(self) -> None:
        """Forget what is listened to, as the session was; everybody may have missed something."""
        with self.lock:
            self._listened.clear()
            self._touched = set(self._subscribers)
            self._news = {}
            for channel, subscribers in self._subscribers.items():
                for subscription in subscribers:
                    self._news.setdefault(subscription, set()).add(channel)

    def take_changes(self) -> Changes:
        """What has changed since this was asked last."""
        with self.lock:
            touched, self._touched = self._touched, set()
            news, self._news = self._news, {}
            wanted = {channel for channel in touched if channel in self._subscribers}
            changes = Changes(
                listen=frozenset(wanted - self._listened),
                unlisten=frozenset((touched - wanted) & self._listened),
                news=news,
            )
            self._listened |= changes.listen
            self._listened -= changes.unlisten
            return changes

    def who_wants(self, fired: Mapping[str, str]) -> dict[Subscription, dict[str, str]]:
        """The subscriptions of these channels, each once."""
        due: dict[Subscription, dict[str, str]] = {}
        with self.lock:
            for channel, said in fired.items():
                for subscription in self._subscribers.get(channel, ()):
                    due.setdefault(subscription, {})[channel] = said
        return due

    def forget_holders(self) -> None:
        """In a child process: the threads that held locks are not here."""
        self.lock = threading.Lock()
        for subscribers in self._subscribers.values():
            for subscription in subscribers:
                subscription.forget_holder()


def check_channels(channels: Iterable[str]) -> set[str]:
    """The channels without duplicates; raise InvalidArgument for what cannot be one."""
    if isinstance(channels, str):
        raise InvalidArgument("channels are a list of names, not a str")
    names = set(channels)
    for name in names:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise InvalidArgument(f"channel {name!r} cannot be encoded as UTF-8") from None
        if not 0 < size <= LONGEST_CHANNEL or "\0" in name:
            raise InvalidArgument(
                f"channel {name!r} must have 1 to {LONGEST_CHANNEL} bytes and no NUL, it has {size}"
            )
    return names
