"""The status of a job is a function of its columns and the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.states import (
    ARCHIVED,
    FINISHED,
    HELD,
    MEANING,
    WAITING,
    JobState,
    Status,
    is_leased,
    status_of,
)
from holdfast.errors import InvalidArgument

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAST = NOW - timedelta(seconds=1)
FUTURE = NOW + timedelta(seconds=1)

live_states = st.sampled_from([state for state in JobState if state not in ARCHIVED])
moments = st.sampled_from([PAST, NOW, FUTURE])


def test_every_state_is_in_exactly_one_of_waiting_held_and_finished() -> None:
    assert sorted([*WAITING, *HELD, *FINISHED]) == sorted(JobState)


def test_every_finished_state_but_dead_is_archived() -> None:
    left_behind = FINISHED - ARCHIVED

    assert left_behind == {JobState.DEAD}


def test_every_state_is_explained() -> None:
    assert set(MEANING) == set(JobState)


def test_a_lease_lapses_at_the_very_moment_it_names() -> None:
    assert is_leased(FUTURE, NOW)
    assert not is_leased(NOW, NOW)
    assert not is_leased(None, NOW)


@pytest.mark.parametrize("state", sorted(HELD))
def test_a_held_job_is_active_whatever_else_is_true_of_it(state: JobState) -> None:
    status = status_of(
        state,
        now=NOW,
        available_at=FUTURE,
        lease_expires_at=FUTURE,
        waits=True,
        consecutive_expirations=99,
        expires_at=PAST,
        paused=True,
    )

    assert status is Status.ACTIVE


def test_a_cancelling_job_whose_lease_lapsed_is_cancelled() -> None:
    assert (
        status_of(JobState.CANCELLING, now=NOW, available_at=PAST, lease_expires_at=PAST) is Status.CANCELLED
    )


def test_a_running_job_whose_lease_lapsed_is_ready_before_anyone_sweeps_it() -> None:
    assert status_of(JobState.RUNNING, now=NOW, available_at=PAST, lease_expires_at=PAST) is Status.READY


def test_a_dead_job_is_dead_even_when_it_is_not_due() -> None:
    assert status_of(JobState.DEAD, now=NOW, available_at=FUTURE, expires_at=PAST) is Status.DEAD


def test_of_several_reasons_not_to_run_the_first_is_named() -> None:
    def status(*, available_at: datetime, waits: bool, lapses: int, expires_at: datetime) -> Status:
        return status_of(
            JobState.UNKNOWN_RETRY,
            now=NOW,
            available_at=available_at,
            waits=waits,
            consecutive_expirations=lapses,
            expires_at=expires_at,
            paused=True,
        )

    assert status(available_at=FUTURE, waits=True, lapses=5, expires_at=NOW) is Status.AWAITING_FUTURE
    assert status(available_at=NOW, waits=True, lapses=5, expires_at=NOW) is Status.PENDING_JOBS
    assert status(available_at=NOW, waits=False, lapses=5, expires_at=NOW) is Status.CRASH_CONCERN
    assert status(available_at=NOW, waits=False, lapses=4, expires_at=NOW) is Status.EXPIRED
    assert status(available_at=NOW, waits=False, lapses=4, expires_at=FUTURE) is Status.PAUSED


def test_the_threshold_decides_when_lapses_become_a_concern() -> None:
    def status(threshold: int) -> Status:
        return status_of(
            JobState.UNKNOWN_RETRY, now=NOW, available_at=PAST, consecutive_expirations=2, threshold=threshold
        )

    assert status(2) is Status.CRASH_CONCERN
    assert status(3) is Status.READY


@pytest.mark.parametrize("state", sorted(ARCHIVED))
def test_an_archived_job_has_no_status(state: JobState) -> None:
    with pytest.raises(InvalidArgument, match="has no status"):
        status_of(state, now=NOW, available_at=PAST)


@given(
    state=live_states,
    available_at=moments,
    lease_expires_at=st.none() | moments,
    waits=st.booleans(),
    lapses=st.integers(0, 6),
    expires_at=st.none() | moments,
    paused=st.booleans(),
)
def test_only_a_job_with_nothing_against_it_is_ready(
    state: JobState,
    available_at: datetime,
    lease_expires_at: datetime | None,
    waits: bool,
    lapses: int,
    expires_at: datetime | None,
    paused: bool,
) -> None:
    status = status_of(
        state,
        now=NOW,
        available_at=available_at,
        lease_expires_at=lease_expires_at,
        waits=waits,
        consecutive_expirations=lapses,
        expires_at=expires_at,
        paused=paused,
    )

    lapsed = lease_expires_at is None or lease_expires_at <= NOW
    can_be_claimed = state in WAITING or (state is JobState.RUNNING and lapsed)
    in_time = available_at <= NOW and (expires_at is None or expires_at > NOW)
    assert (status is Status.READY) == (
        can_be_claimed and in_time and not waits and lapses < 5 and not paused
    )
