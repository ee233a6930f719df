"""The upkeep of an installation by a program that is no worker, such as the web server."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from holdfast.store import Store

logger: Final = logging.getLogger("holdfast.console")

EVERY_S: Final = 10.0
AT_ONCE_S: Final = 0.5
"""When there is more to do: soon, but not without a pause for others."""


async def keep_up(store: Store, every_s: float = EVERY_S) -> None:
    """Do what has to be done every few seconds, until cancelled; a database that is gone is waited for."""
    failing = False
    while True:
        more = False
        try:
            more = await store.upkeep()
        except Exception as error:
            if not failing:
                logger.warning("the upkeep of the database fails: %s; trying again until it works", error)
            failing = True
        else:
            if failing:
                logger.info("the upkeep of the database works again")
            failing = False
        await asyncio.sleep(AT_ONCE_S if more else every_s)
