"""The tasks of the shop. Workers find them as `holdfast.demo.shop:hf`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time

from holdfast import Holdfast, PermanentError, Retry, current_job

hf = Holdfast()

SOON = Retry(4, base=0.3, multiplier=1.5, jitter=0.1)
"""A demo does not wait fifteen seconds for a second attempt."""


@hf.task(queue="orders", tags=["orders"])
async def pack(order: int) -> dict[str, object]:
    """Takes a moment, like everything that waits for other people."""
    await asyncio.sleep(0.15)
    return {"order": order, "seal": hashlib.sha256(str(order).encode()).hexdigest()[:8]}


@hf.task(queue="mail", retry=SOON, tags=["mails"])
def send_mail(order: int) -> str:
    """The mail server hangs up on every sixth letter, once."""
    time.sleep(0.02)
    if order % 6 == 0 and current_job().attempt == 1:
        raise ConnectionError("the mail server hung up")
    return f"letter about order {order}"


@hf.task(queue="stock", resources=["scanner"], tags=["stock"])
def count_stock(shelf: int) -> int:
    """There are two scanners, so never more than two of these run, however many workers there are."""
    time.sleep(0.1)
    return shelf * 7


@hf.task(queue="pictures", run_in="process", retry=SOON, tags=["pictures"])
def resize(picture: int) -> str:
    """Runs in a process of its own; one picture is so broken that it takes the process with it."""
    if picture == 3 and current_job().attempt == 1:
        os._exit(139)  # as a segmentation fault would, without a word
    return f"picture {picture}, 200 pixels wide"


@hf.task(queue="money", tags=["money"])
async def charge(card: str) -> None:
    """Fails for good: no other attempt would do better."""
    raise PermanentError(f"card {card} was reported stolen")


@hf.task(queue="clicks", tags=["clicks"])
async def count_click(page: int) -> None:
    """Next to nothing, many times."""


@hf.task(queue="orders", tags=["report"])
async def report(orders: int) -> str:
    """Waits for every order and every mail."""
    return f"{orders} orders packed, {orders} letters sent"
