"""What is read from buckets is near what was put into them."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.history import BOUNDS_S, quantile_s


def counted(times_s: list[float]) -> list[int]:
    counts = [0] * (len(BOUNDS_S) + 1)
    for time_s in times_s:
        counts[bisect_right(BOUNDS_S, time_s)] += 1
    return counts


@given(st.lists(st.floats(0.001, 86_400), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_is_in_the_bucket_of_the_job_that_it_is_about(times_s: list[float], share: float) -> None:
    found = quantile_s(counted(times_s), share)
    ordered = sorted(times_s)
    exact = ordered[max(0, -(-round(share * len(ordered) * 100) // 100) - 1)]
    assert found is not None
    assert exact / 2**0.5 <= found * (1 + 1e-9)
    assert found <= exact * 2**0.5 * (1 + 1e-9)


def test_nothing_has_no_quantile_and_the_last_bucket_no_end() -> None:
    assert quantile_s([0] * 61, 0.5) is None
    assert quantile_s([], 0.5) is None
    assert quantile_s([0] * 60 + [4], 0.5) == BOUNDS_S[-1]
    assert quantile_s([8] + [0] * 60, 0.5) == pytest.approx(0.0005)
