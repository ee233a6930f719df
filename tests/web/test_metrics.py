"""Figures for Prometheus."""

from __future__ import annotations

import re

import httpx
import pytest

from holdfast.domain.outcome import Rescheduled
from holdfast.store.signals import Signals
from holdfast.web import metrics
from tests.clock import Clock
from tests.console.conftest import Shop
from tests.web.waiting import eventually

SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="(?:[^"\\]|\\.)*"(,[a-z]+="(?:[^"\\]|\\.)*")*\})? [0-9.e+-]+')


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "FRESH_S", 0.0)
    monkeypatch.setattr(metrics, "LAG_S", 0.0)


def scrape(web: httpx.Client) -> dict[str, float]:
    answer = web.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples), samples
    assert len(samples) == len({line.rpartition(" ")[0] for line in samples}), "a sample comes twice"
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in samples}


def test_lines_are_measured_by_queue(web: httpx.Client, shop: Shop, clock: Clock) -> None:
    shop.submit("a", "b", queue="mail")
    shop.submit("c", queue="mail", delay_s=600)
    shop.running("r")
    shop.dead("d")
    clock.advance(30)
    seen = scrape(web)
    assert seen['holdfast_queue_depth{queue="mail",state="due"}'] == 2
    assert seen['holdfast_queue_depth{queue="mail",state="delayed"}'] == 1
    assert seen['holdfast_queue_depth{queue="now",state="held"}'] == 1
    assert seen['holdfast_queue_depth{queue="once",state="dead"}'] == 1
    assert seen['holdfast_queue_oldest_seconds{queue="mail"}'] == pytest.approx(30, abs=1)
    assert seen['holdfast_workers{status="busy"}'] == 1


def test_counters_grow_by_what_happened_since_the_last_scrape(
    web: httpx.Client, shop: Shop, clock: Clock
) -> None:
    shop.ended("before")
    first = scrape(web)
    assert 'holdfast_jobs_ended_total{queue="once",state="COMPLETED"}' not in first
    assert first["holdfast_job_failures_total"] == 0
    clock.advance(1)
    shop.ended("one")
    shop.ended("two")
    shop.dead("d")
    clock.advance(1)
    seen = scrape(web)
    assert seen['holdfast_jobs_ended_total{queue="once",state="COMPLETED"}'] == 2
    assert seen['holdfast_jobs_ended_total{queue="once",state="DEAD"}'] == 1
    assert seen['holdfast_job_run_seconds_bucket{queue="once",le="+Inf"}'] == 3
    assert seen['holdfast_job_wait_seconds_count{queue="once"}'] == 3
    assert seen["holdfast_job_failures_total"] == 1
    again = scrape(web)
    assert again['holdfast_jobs_ended_total{queue="once",state="COMPLETED"}'] == 2
    buckets = [value for name, value in again.items() if name.startswith("holdfast_job_run_seconds_bucket")]
    assert buckets == sorted(buckets)


def test_busy_resources_and_lapsed_leases_are_counted(web: httpx.Client, shop: Shop, clock: Clock) -> None:
    scrape(web)
    shop.ended("busy", Rescheduled(60.0, "resource_busy"))
    shop.running("lost")
    clock.advance(3600)
    assert shop.store.lapse_leases()
    seen = scrape(web)
    assert seen["holdfast_jobs_rescheduled_resource_busy_total"] == 1
    assert seen["holdfast_leases_lapsed_total"] == 1


def test_a_queue_may_have_any_name(web: httpx.Client, shop: Shop) -> None:
    shop.submit("a", queue='"} 1\n\\evil{')
    seen = scrape(web)
    assert seen['holdfast_queue_depth{queue="\\"} 1\\n\\\\evil{",state="due"}'] == 1


def test_the_health_of_listeners_is_shown(web: httpx.Client, database: str) -> None:
    assert scrape(web)['holdfast_listeners{mode="listening"}'] == 0
    signals = Signals.share(database)
    try:
        eventually(lambda: scrape(web)['holdfast_listeners{mode="listening"}'] == 1)
    finally:
        signals.release()
