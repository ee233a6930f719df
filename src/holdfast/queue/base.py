"""What both kinds of queue have in common: their terms, and whether they are open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from holdfast.config import DEFAULT_SCHEMA, schema_name
from holdfast.embedded import Database
from holdfast.errors import HoldfastError, InvalidArgument, QueueClosed
from holdfast.queue.streams import Streams
from holdfast.store import arguments
from holdfast.store.arguments import Duration

StoreT = TypeVar("StoreT")

LEASE_S: Final = 30.0
POLL_S: Final = 5.0
MOST_LISTED: Final = 1000


@dataclass(frozen=True, slots=True)
class Opened(Generic[StoreT]):
    """What an open queue uses, in the order it is closed: streams, store, database."""

    streams: Streams
    store: StoreT
    database: Database


class QueueBase(Generic[StoreT]):
    """A queue that is not open yet, open, or closed for good."""

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        lease: Duration = LEASE_S,
        poll: Duration = POLL_S,
    ) -> None:
        self._dsn = arguments.optional_text(dsn, "dsn")
        self._schema = schema_name(arguments.text(schema, "schema"))
        self._lease_s = arguments.seconds(lease, "lease", positive=True)
        self._poll_s = arguments.seconds(poll, "poll", positive=True)
        self._opened: Opened[StoreT] | None = None
        self._closed = False

    def __repr__(self) -> str:
        standing = "closed" if self._closed else "not open" if self._opened is None else "open"
        return f"<{type(self).__name__} of schema {self._schema}, {standing}>"

    def _require_open(self) -> Opened[StoreT]:
        if self._opened is None:
            raise self._not_open()
        return self._opened

    def _not_open(self) -> QueueClosed:
        if self._closed:
            return QueueClosed("the queue is closed, and a closed queue stays closed: make another one")
        return QueueClosed("the queue is not open: open it first, with open() or as a context manager")

    def _explained(self, error: HoldfastError) -> HoldfastError:
        """What a store says that was closed under a call is that the queue is closed."""
        return self._not_open() if self._closed and isinstance(error, InvalidArgument) else error

    @property
    def _streams(self) -> Streams:
        return self._require_open().streams

    def _open_parts(self, store: StoreT, database: Database) -> None:
        streams = new_streams(database.dsn, self._schema, self._poll_s)
        self._opened = Opened(streams, store, database)

    def _close_parts(self) -> Opened[StoreT] | None:
        """From here on every verb is refused; what is returned is for the caller to close, once."""
        opened, self._opened, self._closed = self._opened, None, True
        return opened


def new_streams(dsn: str, schema: str, poll_s: float) -> Streams:
    """The streams of a queue that was just opened: none yet."""
    return Streams(dsn, schema, poll_s=poll_s)
