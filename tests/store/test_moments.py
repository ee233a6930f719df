"""Moments are aware and in UTC, whatever time zone and date style a session has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from holdfast.domain.job import Job, NewJob
from holdfast.domain.outcome import Failed
from holdfast.store import SyncStore
from tests.clock import Clock

NOW = datetime(2031, 3, 30, 1, 59, 59, 999999, tzinfo=UTC)


@pytest.fixture(params=["Asia/Kathmandu", "America/St_Johns", "Europe/Berlin", "Etc/UTC", "UTC"])
def elsewhere(request: pytest.FixtureRequest, database: str, conn: psycopg.Connection[Any]) -> str:
    name = conn.info.dbname
    conn.execute(f"alter database {name} set timezone = '{request.param}'".encode())
    conn.execute(f"alter database {name} set datestyle = 'SQL, DMY'".encode())
    return database


def test_every_moment_of_a_job_is_in_utc(elsewhere: str, clock: Clock) -> None:
    clock.freeze(NOW)
    with SyncStore(elsewhere) as store:
        store.submit_jobs([NewJob(expires_at=NOW + timedelta(days=1))])
        (claimed,) = store.claim_jobs("w", ["default"], lease_s=60)
        store.report_progress(claimed.job_id, claimed.lease_id, 1)
        held = store.get_job(claimed.job_id)
        store.settle_jobs([(claimed.job_id, claimed.lease_id, Failed("no", delay_s=30))])
        failed = store.get_job(claimed.job_id)
        due = store.next_due(["default"])

    assert held is not None
    assert failed is not None
    assert claimed.lease_expires_at == NOW + timedelta(seconds=60)
    assert held.progress is not None
    assert (held.progress.at, failed.errors[0].at, due) == (NOW, NOW, NOW + timedelta(seconds=30))
    moments = [claimed.available_at, claimed.lease_expires_at, claimed.created_at, due]
    moments += [held.progress.at, failed.errors[0].at, *moments_of(held), *moments_of(failed)]
    assert {moment.tzinfo for moment in moments if moment is not None} == {UTC}


def moments_of(job: Job) -> list[datetime]:
    values = [getattr(job, name) for name in Job.__dataclass_fields__]
    return [value for value in values if isinstance(value, datetime)]


def test_a_moment_means_the_same_wherever_it_was_named(elsewhere: str) -> None:
    far = datetime(2999, 12, 31, 23, 59, 59, 123456, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))
    with SyncStore(elsewhere) as store:
        store.submit_jobs([NewJob(job_id="many", available_at=far)])
        store.submit_job(NewJob(job_id="one", available_at=far), "me")

        many, one = store.get_job("many"), store.get_job("one")

    assert many is not None
    assert one is not None
    assert many.available_at == one.available_at == far


@pytest.mark.parametrize(
    "moment", [datetime.min, datetime(1, 1, 1, 0, 0, 1), datetime(1999, 12, 31), datetime.max]
)
def test_every_moment_python_knows_comes_back(store: SyncStore, moment: datetime) -> None:
    at = moment.replace(tzinfo=UTC)
    store.submit_jobs([NewJob(expires_at=at)])

    read = store.get_job("j1")

    assert read is not None
    assert read.expires_at == at
