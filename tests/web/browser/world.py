"""A small shop in the middle of its day: something in every state, made by the engine."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from math import sin
from typing import Any

from holdfast.domain.job import JsonValue, NewJob
from holdfast.domain.outcome import Completed, Failed
from holdfast.store import SyncStore

BIG = 12345678901234567890123
"""More than a JavaScript number can say."""

TIMEOUT = "ReadTimeout: the mail server did not answer within 30 s"
TRACEBACK = """Traceback (most recent call last):
  File "/app/shop/mail.py", line 41, in send_receipt
    await server.send(letter)
  File "/app/shop/smtp.py", line 118, in send
    raise ReadTimeout("the mail server did not answer within 30 s")
shop.smtp.ReadTimeout: the mail server did not answer within 30 s"""


def fill(store: SyncStore) -> None:
    """Jobs of all kinds, as a person who opens the dashboard would find them."""
    _ended(store)
    _dead(store)
    _retrying(store)
    _waiting(store)
    _running(store)


def _ended(store: SyncStore) -> None:
    chance = random.Random(7)
    tasks = ["shop.pack_order", "shop.send_receipt", "shop.resize_picture", "shop.sync_stock"]
    jobs = [
        NewJob(
            job_id=f"order-{n}",
            queue="orders",
            task=chance.choice(tasks),
            payload={"args": [n], "kwargs": {}},
        )
        for n in range(1, 121)
    ]
    store.submit_jobs(jobs)
    claimed = store.claim_jobs("packer-1", ["orders"], 200)
    store.settle_jobs([(job.job_id, job.lease_id, Completed({"parcel": n})) for n, job in enumerate(claimed)])


def _dead(store: SyncStore) -> None:
    def die(job_id: str, task: str, error: str, traceback: str, tags: list[str]) -> None:
        store.submit_jobs(
            [NewJob(job_id=job_id, queue="mail", task=task, payload={"args": [job_id]}, tags=tags)]
        )
        (job,) = store.claim_jobs("mailer-2", ["mail"], 1)
        store.settle_jobs([(job.job_id, job.lease_id, Failed(error, traceback, permanent=True))])

    for n in range(1, 8):
        die(f"receipt-{n}", "shop.send_receipt", TIMEOUT, TRACEBACK, ["eu"])
    for n in range(1, 4):
        die(f"charge-{n}", "shop.charge", "CardDeclined: card 4711 was reported stolen", TRACEBACK, ["money"])


def _retrying(store: SyncStore) -> None:
    store.submit_jobs([NewJob(job_id="newsletter-9", queue="mail", task="shop.newsletter", max_attempts=5)])
    for attempt in range(2):
        (job,) = store.claim_jobs("mailer-2", ["mail"], 1)
        delay_s = 0 if attempt == 0 else 600
        store.settle_jobs([(job.job_id, job.lease_id, Failed(TIMEOUT, TRACEBACK, delay_s=delay_s))])


def _waiting(store: SyncStore) -> None:
    payload: JsonValue = {
        "order": BIG,
        "items": [{"sku": "kelp-1", "count": 2}],
        "gift": None,
        "note": "ring twice",
    }
    store.submit_jobs(
        [
            NewJob(
                job_id="invoice-1",
                queue="billing",
                task="shop.invoice",
                payload=payload,
                priority=5,
                tags=["eu", "vip"],
            ),
            NewJob(job_id="parcel-1", queue="billing", task="shop.ship", wait_for=["invoice-1"]),
            NewJob(job_id="thanks-1", queue="mail", task="shop.send_receipt", wait_for=["parcel-1"]),
            NewJob(job_id="survey-1", queue="mail", task="shop.survey", wait_for=["parcel-1"], delay_s=3600),
        ]
    )
    store.submit_jobs(
        NewJob(job_id=f"picture-{n}", queue="pictures", task="shop.resize_picture", payload={"picture": n})
        for n in range(1, 31)
    )
    store.submit_jobs(
        NewJob(
            job_id=f"stock-{n}", queue="stock", task="shop.sync_stock", singleton_key="stock", delay_s=n * 60
        )
        for n in range(1, 6)
    )


def _running(store: SyncStore) -> None:
    store.set_resource_capacity("scanner", 2)
    store.submit_jobs(
        NewJob(job_id=f"shelf-{n}", queue="shelves", task="shop.count_shelf", resource_keys=["scanner"])
        for n in range(1, 5)
    )
    held = store.claim_jobs("packer-1", ["shelves"], 2, lease_s=600)
    for job in held:
        store.acquire_resources(job.job_id, ["scanner"], lease_id=job.lease_id)
    store.report_progress(held[0].job_id, held[0].lease_id, 31, 80, "shelf B")
    store.submit_jobs(
        [NewJob(job_id="export-1", queue="reports", task="shop.export", singleton_key="export")]
    )
    store.claim_jobs("reporter@night", ["reports"], 1, lease_s=600)


def past(now: datetime) -> dict[str, Any]:
    """An hour as the history tells it: a morning that gets busier, and a mail server that hangs."""
    chance = random.Random(11)
    points: list[dict[str, Any]] = []
    for minute in range(60):
        trouble = max(0.0, 1 - abs(minute - 41) / 6)
        load = 420 + 160 * sin(minute / 9) + 4 * minute + chance.uniform(-35, 35)
        wait_ms = 18 + load / 40 + 160 * trouble + chance.uniform(-3, 3)
        run_ms = 95 + 12 * sin(minute / 5) + 220 * trouble + chance.uniform(-6, 6)
        points.append(
            {
                "at": (now.replace(second=0, microsecond=0) - timedelta(minutes=59 - minute)).isoformat(),
                "completed": round(load * (1 - 0.35 * trouble)),
                "dead": round(14 * trouble),
                "cancelled": chance.choice([0, 0, 0, 1, 2]),
                "expired": 0,
                "wait_p50_ms": wait_ms,
                "wait_p95_ms": wait_ms * 3.1 + chance.uniform(0, 30),
                "run_p50_ms": run_ms,
                "run_p95_ms": run_ms * 4.2 + chance.uniform(0, 60),
                "depth": round(40 + load / 12 + 380 * trouble + chance.uniform(-8, 8)),
                "oldest_s": 2 + 48 * trouble + chance.uniform(0, 2),
            }
        )
    return {"step_s": 60, "points": points}
