"""One worker process of a measurement: `python -m holdfast.bench.crew_process`, started by `crew`.

Reads its terms from stdin, says "ready" when it is, begins at the next line, works until the whole crew has
begun every job and nothing is left for it, and then says in one line of JSON what it did and what it cost.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from holdfast.app import Holdfast
from holdfast.bench import statements
from holdfast.bench.costs import peak_mb
from holdfast.bench.ledger import Ledger
from holdfast.bench.tasks import define_noop
from holdfast.worker.heap import seldom_searched

LOOK_S = 0.005
SAMPLES = 20
"""How often memory is looked at, in equal steps of jobs."""


def main() -> None:
    terms: dict[str, Any] = json.loads(sys.stdin.readline())
    ledger = Ledger(
        Path(terms["ledger"]), terms["jobs"], terms["processes"], terms["index"], stamped=terms["stamped"]
    )
    app = Holdfast(terms["dsn"])
    define_noop(app, ledger.mark)
    app.database()
    print("ready", flush=True)
    sys.stdin.readline()
    with statements.counted() as tally, seldom_searched():  # as in `holdfast worker`
        cpu_s = time.process_time()
        began_s, ended_s, memory_mb = asyncio.run(_work(app, ledger, terms["queues"]))
        cpu_s = time.process_time() - cpu_s
    found = {
        "began_s": began_s,
        "ended_s": ended_s,
        "cpu_s": cpu_s,
        "queries": tally.count,
        "peak_mb": peak_mb(),
        "memory_mb": memory_mb,
        "metrics": app.metrics.snapshot(),
    }
    app.close()
    print(json.dumps(found), flush=True)


async def _work(app: Holdfast, ledger: Ledger, queues: dict[str, int]) -> tuple[float, float, list[float]]:
    memory_mb: list[float] = []
    began_s = time.monotonic()
    async with app.worker(queues) as worker:
        while (total := ledger.total()) < ledger.jobs:
            if total * SAMPLES // ledger.jobs > len(memory_mb):
                memory_mb.append(_memory_mb())
            await asyncio.sleep(LOOK_S)
        await worker.drain()
        ended_s = time.monotonic()
        memory_mb.append(_memory_mb())
    return began_s, ended_s, memory_mb


def _memory_mb() -> float:
    """What the process has in memory now; where the kernel does not say, the most it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return peak_mb()
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
