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
            await _ask_and_give_up(store)

        asyncio.run(leave_in_the_middle())


@pytest.mark.timeout(30)
def test_a_loop_ends_although_a_close_that_was_cut_short_has_just_stopped_a_connection_being_made() -> None:
    """The worker of the pool is cancelled twice at once, by the close and by the loop, and hears of one."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = Store(f"host=127.0.0.1 port={silent.getsockname()[1]} dbname=x")

        async def leave_in_the_middle() -> None:
            await _ask_and_give_up(store)
            # What a close does first, in the loop's last turn: so both cancel the worker before it can run.
            asyncio.get_running_loop().call_soon(store._pacing.close)

        asyncio.run(leave_in_the_middle())


@pytest.mark.timeout(30)
@pytest.mark.parametrize("turns", range(8))
def test_a_loop_ends_although_a_pool_has_just_been_opened(turns: int) -> None:
    """After some turn the pool has just woken its scheduler, which then sleeps through the cancellation."""
    store = Store("host=127.0.0.1 port=1 dbname=x")

    async def leave_soon() -> None:
        await store.open()
        for _ in range(turns):
            await asyncio.sleep(0)

    asyncio.run(leave_soon())


async def _ask_and_give_up(store: Store) -> None:
    """Cancel a call while its connection is just being made."""
    asking = asyncio.create_task(store.get_job("a"))
    while not store._pacing.under_way:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking


async def _open_and_close(dsn: str, times: int) -> list[str]:
    for _ in range(times):
        async with Store(dsn) as store:
            await store.is_notify_enabled()
    await asyncio.sleep(0)
    return [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_a_store_that_was_closed_leaves_no_task_behind(database: str) -> None:
    assert asyncio.run(_open_and_close(database, 3)) == []
