"""The user's database if there is one, else the embedded one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from holdfast.config import database_url
from holdfast.embedded.lifecycle import start
from holdfast.embedded.server import Server


@dataclass(frozen=True, slots=True)
class Database:
    """The address of a database, and the embedded server behind it if there is one."""

    dsn: str
    server: Server | None = None

    def close(self) -> None:
        """End our use of the embedded server; nothing to do for a database of the user's own."""
        if self.server is not None:
            self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def database_or_embedded(
    dsn: str | None = None, *, keep: bool = False, log: Callable[[str], None] | None = None
) -> Database:
    """The database of the argument, else of the environment, else the project's embedded one."""
    if own := database_url(dsn):
        return Database(own)
    server = start(keep=keep, log=log)
    return Database(server.dsn, server)
