"""Counters and histograms."""

from __future__ import annotations

from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from holdfast.telemetry import BOUNDS_S, Metrics


def test_nothing_happened_yet() -> None:
    assert Metrics().snapshot() == {}


def test_counters_add_up_over_threads() -> None:
    metrics = Metrics()

    def work() -> None:
        for _ in range(1000):
            metrics.count("jobs.completed")
            metrics.observe("jobs.run_s", 0.001)

    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics.count("jobs.rescheduled.resource_busy", 3)
    shown = metrics.snapshot()
    assert shown["jobs.completed"] == shown["jobs.run_s.count"] == 8000
    assert shown["jobs.rescheduled.resource_busy"] == 3


@given(st.lists(st.floats(0, BOUNDS_S[-1]), min_size=1))
def test_a_histogram_says_how_many_how_much_and_how_long_at_most(values: list[float]) -> None:
    metrics = Metrics()
    for value in values:
        metrics.observe("wait_s", value)
    shown = metrics.snapshot()
    assert (shown["wait_s.min"], shown["wait_s.max"]) == (min(values), max(values))
    assert shown["wait_s.p50"] <= shown["wait_s.p95"] <= shown["wait_s.p99"] <= max(values)
    median = sorted(values)[(len(values) - 1) // 2]
    assert median * (1 - 1e-9) <= shown["wait_s.p50"] <= max(2 * median, BOUNDS_S[0]), "within its bucket"
