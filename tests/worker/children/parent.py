"""A worker to be killed. It runs some tasks in one child, tells which and stays until it is ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from holdfast.domain.job import JsonValue
from holdfast.worker.children import ChildPool, ChildRequest


async def main(*tasks: str) -> None:
    """Print the number of the child when the last task begins; the last but one has ended then."""

    def tell(job_id: str, message: Mapping[str, JsonValue]) -> None:
        if job_id == tasks[-1] and message["type"] == "started":
            [child] = pool._starter.children
            print(child.pid, flush=True)

    pool = ChildPool(size=1, target="tests.worker.children.app:app", on_message=tell)
    for task in tasks:
        await pool.run(ChildRequest(task, task, None, 1, None, {}))
    await asyncio.sleep(600)


asyncio.run(main(*sys.argv[1:]))
