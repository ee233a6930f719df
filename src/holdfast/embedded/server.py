"""A use of the embedded database: the server runs at least as long as somebody holds one."""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from holdfast.embedded import locks, process
from holdfast.embedded.cluster import DATABASE, SUPERUSER
from holdfast.embedded.places import PORT, Layout


class Use:
    """One share in the users' lock; the kernel ends it if we die, and `drop` ends it otherwise."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._shares = [locks.share(layout.users_lock)]
        atexit.register(self.drop)

    def give_back(self) -> bool:
        """End the share and leave the rest to the watchdog; False if it was ended before."""
        try:
            share = self._shares.pop()
        except IndexError:
            return False
        atexit.unregister(self.drop)
        # Closed, not unlocked: a forked child that has the same share goes on using the server.
        os.close(share)
        return True

    def drop(self) -> None:
        """End the share, and the server if that was the last one."""
        if self.give_back():
            stop_if_unused(self._layout)


@dataclass(frozen=True, slots=True)
class Server:
    """A running embedded database that this process uses until `close`, or until it exits.

    A forked child shares the use: the server runs until both have closed it or are gone.
    """

    directory: Path
    socket_directory: Path
    bin_directory: Path
    version: int
    """PostgreSQL's major version."""
    pid: int
    _use: Use = field(repr=False, compare=False)

    @property
    def dsn(self) -> str:
        """The address of the database, for psycopg, psql and everything built on libpq."""
        return dsn(self.socket_directory)

    def close(self) -> None:
        """End this use, and with the last use the server, unless it is to be kept. Twice is harmless."""
        self._use.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def dsn(sockets: Path, database: str = DATABASE) -> str:
    """The address of a database of the server whose socket lies there."""
    # The port is named, although it is the default, because PGPORT would win over a default.
    return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(sockets))}&port={PORT}"


def stop_if_unused(layout: Layout) -> None:
    """Stop the server unless somebody uses it or wants it kept.

    The watchdog does the same; whoever comes second finds nothing to do. But we make the caller wait for it.
    """
    if locks.is_shared(layout.users_lock):
        return
    with suppress(FileNotFoundError), locks.exclusive(layout.start_lock):  # the directory may be gone
        if not layout.keep.exists() and not locks.is_shared(layout.users_lock):
            process.stop_server(layout)
