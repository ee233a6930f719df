"""The retry policy: when, how often, and what is stored of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.retry import Retry, retry_from
from holdfast.errors import InvalidArgument

shares = st.floats(0, 1)
policies = st.builds(
    Retry,
    st.integers(1, 1000),
    base=st.floats(0, 1e6),
    multiplier=st.floats(1, 100),
    cap=st.floats(0, 1e9),
    jitter=shares,
)


def test_the_usual_policy_doubles_from_fifteen_seconds_up_to_an_hour() -> None:
    delays = [Retry().delay(attempt) for attempt in range(1, 12)]
    assert delays == [15, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert Retry().max_attempts == 10


def test_jitter_is_a_quarter_either_way_and_the_cap_comes_last() -> None:
    chances = iter([0.0, 0.5, 1.0])
    assert [Retry().delay(1, lambda: next(chances)) for _ in range(3)] == [11.25, 15, 18.75]
    assert Retry(cap=16).delay(1, lambda: 1.0) == 16
    assert Retry(base=4000).delay(1, lambda: 0.0) == 3000, "jitter is taken before the cap"


@given(policies, st.integers(1, 10**9), shares)
def test_no_delay_is_negative_or_longer_than_the_cap(policy: Retry, attempt: int, chance: float) -> None:
    assert 0 <= policy.delay(attempt, lambda: chance) <= policy.cap_s


@given(policies, st.integers(1, 200))
def test_without_chance_delays_never_shrink(policy: Retry, attempt: int) -> None:
    assert policy.delay(attempt) <= policy.delay(attempt + 1)


@given(policies, st.integers(1, 200), shares)
def test_jitter_stays_within_its_share(policy: Retry, attempt: int, chance: float) -> None:
    middle, found = policy.delay(attempt), policy.delay(attempt, lambda: chance)
    assert found >= middle * (1 - policy.jitter) * (1 - 1e-9)
    assert found <= middle * (1 + policy.jitter) * (1 + 1e-9) or found <= policy.cap_s


@given(policies)
def test_a_stored_policy_comes_back_equal(policy: Retry) -> None:
    assert Retry().overruled_by(json.loads(json.dumps(policy.to_json()))) == policy


def test_what_is_stored_with_a_job_wins_and_the_kinds_of_errors_stay_with_the_task() -> None:
    of_task = Retry(5, base=1, on=(OSError, ValueError), give_up_on=KeyError)
    of_job = of_task.overruled_by({"base": 2})
    assert (of_job.max_attempts, of_job.base_s, of_job.on) == (5, 2, (OSError, ValueError))
    assert of_task.overruled_by(None) is of_task
    assert of_task.overruled_by({"max_attempts": 7}, 3).max_attempts == 3, "the job's column wins"
    assert of_task.overruled_by(None, 1).give_up_on == (KeyError,)


@pytest.mark.parametrize("stored", [{"max_attempts": 0}, {"bse": 3}, {"base": "x"}, {"jitter": None}])
def test_a_stored_policy_that_is_none_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Retry().overruled_by(stored)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"base": -1}, "base"),
        ({"base": float("nan")}, "base"),
        ({"multiplier": 0.5}, "multiplier"),
        ({"cap": timedelta(seconds=-1)}, "cap"),
        ({"jitter": 1.1}, "jitter"),
        ({"on": "ValueError"}, "on"),
        ({"give_up_on": (ValueError, 3)}, "give_up_on"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        Retry(**options)


def test_a_number_is_that_many_attempts() -> None:
    assert retry_from(3) == Retry(3)
    assert retry_from(Retry(3, base=1)).base_s == 1
    for wrong in (0, True, "3", None):
        with pytest.raises(InvalidArgument, match="retry"):
            retry_from(wrong)  # type: ignore[arg-type]


def test_durations_may_be_timedeltas() -> None:
    assert Retry(base=timedelta(minutes=1), cap=timedelta(hours=2)) == Retry(base=60, cap=7200)
