"""A worker over HTTP, on Python and httpx: HOLDFAST_URL=http://127.0.0.1:8420 HOLDFAST_TOKEN=… worker.py"""

import asyncio
import json
from contextlib import suppress
from os import environ, getpid

import httpx

ASK = {"assignee": f"python-{getpid()}", "capacity": 4, "lease": int(environ.get("LEASE", 30)), "ack": True}
http = httpx.AsyncClient(base_url=environ["HOLDFAST_URL"], timeout=30)
http.headers["Authorization"] = f"Bearer {environ.get('HOLDFAST_TOKEN', 'none')}"
held = {}  # by task: what names its job to the server


async def handle(job):  # your work: return a result or raise; it is cancelled when it is to stop
    print("run", job["job_id"], flush=True)
    return await asyncio.sleep(job["payload"]["seconds"], result={"slept": job["payload"]["seconds"]})


async def post(path, **body):
    return (await http.post(path, json=body)).raise_for_status().json()


async def work(job, name):
    try:
        outcome = {"outcome": "complete", "result": await handle(job)}
    except asyncio.CancelledError:
        outcome = {"outcome": "acknowledge_cancellation"}
    except Exception as error:
        outcome = {"outcome": "fail", "error": repr(error), "delay": 10}
    for _ in range(60):  # until the server answers: what is said twice counts once
        with suppress(httpx.HTTPError):
            await post("/api/jobs/settle", results=[name | outcome])
            break
        await asyncio.sleep(1)


async def main():
    while not await asyncio.sleep(1):
        try:
            async with http.stream("POST", "/api/streams", json=ASK | {"holding": [*held.values()]}) as reply:
                async for line in reply.raise_for_status().aiter_lines():
                    match json.loads(line):
                        case {"type": "open", "stream": stream}:
                            path = f"/api/streams/{stream}"
                        case {"type": "job", "job": job}:
                            name = {"job_id": job["job_id"], "lease_id": job["lease_id"]}
                            if (await post(f"{path}/ack", jobs=[name]))["verdicts"][0]["ok"]:
                                held[task := asyncio.create_task(work(job, name))] = name
                                task.add_done_callback(held.pop)
                        case {"type": "cancel" | "lost", "job_id": job_id}:
                            [task.cancel() for task, name in held.items() if name["job_id"] == job_id]
                        case {"type": "ping"}:
                            await post(f"{path}/beat")
        except httpx.HTTPError as error:
            print(f"{error!r}; trying again", flush=True)


asyncio.run(main())
