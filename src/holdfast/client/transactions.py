"""The transaction that jobs are enqueued in, where the caller does not name one at each call."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final

from holdfast.client.borrowing import Borrowed
from holdfast.errors import HoldfastError


class Enlisted:
    """A connection that jobs of one client are enqueued on until the block ends; None: on none."""

    __slots__ = ("borrowed", "client", "is_over")

    def __init__(self, client: object, borrowed: Borrowed | None) -> None:
        self.client = client
        self.borrowed = borrowed
        self.is_over = False


_enlisted: Final[ContextVar[tuple[Enlisted, ...]]] = ContextVar("holdfast_transactions", default=())


def current(client: object) -> Borrowed | None:
    """The connection of the innermost block of this client in this thread or task.

    A task that was started within a block and outlives it is in no block any more.
    """
    for each in reversed(_enlisted.get()):
        if each.client is client and not each.is_over:
            return each.borrowed
    return None


class Transaction:
    """`with hf.transaction(conn):` or `async with`; begins and commits nothing, that is up to the caller."""

    def __init__(self, client: object, borrowed: Borrowed | None) -> None:
        self._client = client
        self._borrowed = borrowed
        self._entered: list[tuple[Enlisted, Token[tuple[Enlisted, ...]]]] = []

    def __enter__(self) -> None:
        if self._entered:
            raise HoldfastError("this transaction block is entered already; make another")
        enlisted = Enlisted(self._client, self._borrowed)
        around = [each for each in _enlisted.get() if not each.is_over]
        self._entered.append((enlisted, _enlisted.set((*around, enlisted))))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        enlisted, token = self._entered.pop()
        enlisted.is_over = True
        with suppress(ValueError):  # left in another context than it was entered in, as fixtures are
            _enlisted.reset(token)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
