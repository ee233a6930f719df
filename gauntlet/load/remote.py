"""Streams over HTTP: reads jobs from a web server and says what became of them, as any language could.

python -m gauntlet.load.remote NAME '{"seed": 1, "lease": 2, "url": "http://127.0.0.1:8420"}'
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from itertools import count
from random import Random
from typing import Any

import httpx

from gauntlet.history import NO, OK, UNKNOWN
from gauntlet.journal import journal

CAPACITIES = (2, 5)


class RemoteHand:
    """One stream after the other, each under its own name: what an old one holds is not the new one's."""

    def __init__(self, name: str, number: int, http: httpx.AsyncClient, lease: float, rng: Random) -> None:
        self._who = f"{name}-{os.getpid()}-{number}"
        self._capacity = CAPACITIES[number % len(CAPACITIES)]
        self._http = http
        self._lease = lease
        self._rng = rng
        self._journal = journal(name)
        self._streams = count()
        self._held: dict[str, str] = {}
        """The leases of jobs that were taken and not settled."""

    async def run(self) -> None:
        while True:
            try:
                await self._read_a_stream(self._rng.randint(5, 60))
            except (httpx.HTTPError, OSError):
                await asyncio.sleep(0.2)

    async def _read_a_stream(self, most: int) -> None:
        assignee = f"{self._who}-{next(self._streams)}"
        self._held.clear()
        self._journal.write("opened", assignee=assignee, capacity=self._capacity)
        asked = {
            "assignee": assignee,
            "capacity": self._capacity,
            "lease": self._lease,
            "queues": ["hand"],
            "ack": True,
        }
        path, delivered = "", 0
        async with self._http.stream("POST", "/api/streams", json=asked) as reply:
            async for line in reply.raise_for_status().aiter_lines():
                match json.loads(line):
                    case {"type": "open", "stream": stream}:
                        path = f"/api/streams/{stream}"
                    case {"type": "job", "job": job}:
                        await self._take(path, job, assignee)
                        delivered += 1
                    case {"type": "cancel", "job_id": job_id} if job_id in self._held:
                        name = {"job_id": job_id, "lease_id": self._held[job_id]}
                        outcome = "acknowledge_cancellation"
                        await self._settle(outcome, {**name, "outcome": outcome})
                    case {"type": "ping"}:
                        await self._http.post(f"{path}/beat", json={})
                    case _:
                        pass
                if delivered >= most:
                    return

    async def _take(self, path: str, job: dict[str, Any], assignee: str) -> None:
        name = {"job_id": job["job_id"], "lease_id": job["lease_id"]}
        taken = (await self._http.post(f"{path}/ack", json={"jobs": [name]})).raise_for_status().json()
        if not taken["verdicts"][0]["ok"]:
            return
        self._journal.write("delivered", job=job["job_id"], lease=job["lease_id"], assignee=assignee)
        self._held[job["job_id"]] = job["lease_id"]
        if self._rng.random() < 0.75:
            await self._settle("complete_job", {**name, "outcome": "complete", "result": {"by": assignee}})
        else:
            await self._settle("fail_job", {**name, "outcome": "fail", "error": "no luck", "delay": 0.05})

    async def _settle(self, op: str, result: dict[str, Any]) -> None:
        number = self._journal.call(op, [result["job_id"]], lease=result["lease_id"])
        said = UNKNOWN
        try:
            answer = (
                await self._http.post("/api/jobs/settle", json={"results": [result]})
            ).raise_for_status()
            said = OK if answer.json()["verdicts"][0]["ok"] else NO
            if said == OK:
                self._held.pop(result["job_id"], None)
        finally:
            self._journal.reply(number, said)


async def serve(name: str, seed: int, lease: float, url: str) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    rng = Random(f"{seed} {name} {os.getpid()}")
    async with httpx.AsyncClient(base_url=url, timeout=5 * lease) as http:
        hands = [RemoteHand(name, number, http, lease, Random(rng.random())) for number in range(2)]
        tasks = [asyncio.create_task(hand.run()) for hand in hands]
        print("ready", flush=True)
        await over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=15)


def main() -> None:
    asyncio.run(serve(sys.argv[1], **json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
