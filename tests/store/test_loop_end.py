"""An event loop that ends while a store is in use ends."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from holdfast.store import Store


@pytest.mark.timeout(30)
def test_a_loop_ends_although_a_connection_is_just_being_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = Store(f"host=127.0.0.1 port={silent.getsockname()[1]} dbname=x")

        async def leave_in_the_middle() -> None:
            asking = asyncio.create_task(store.get_job("a"))
            while not store._pacing.under_way:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking

        asyncio.run(leave_in_the_middle())
