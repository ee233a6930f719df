"""From what a handler raised to what becomes of its job, for every kind of error and every attempt."""

from __future__ import annotations

import asyncio
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.control import PermanentError, RetryAfter, Snooze
from holdfast.domain.judging import message_of, outcome_of
from holdfast.domain.outcome import Failed, Rescheduled
from holdfast.domain.retry import Retry
from holdfast.errors import InvalidArgument, JobCancelled

EVERYDAY = [ValueError("no"), JobCancelled("stop"), RecursionError(), ExceptionGroup("g", [OSError()])]
PAST_EXCEPTION = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]


def failed(error: BaseException, retry: Retry, attempts: int) -> Failed:
    outcome = outcome_of(error, retry, attempts)
    assert isinstance(outcome, Failed)
    return outcome


@pytest.mark.parametrize("error", [*EVERYDAY, *PAST_EXCEPTION], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("attempts", range(4))
def test_anything_raised_is_tried_again_until_the_attempts_are_used_up(
    error: BaseException, attempts: int
) -> None:
    outcome = failed(error, Retry(3, jitter=0), attempts)
    assert outcome.permanent == (attempts >= 2)
    assert outcome.delay_s == (0 if outcome.permanent else 15 * 2**attempts)


def test_one_attempt_means_no_second_chance() -> None:
    assert failed(ValueError(), Retry(1), 0).permanent


@pytest.mark.parametrize(
    ("error", "policy", "permanent"),
    [
        (ValueError(), Retry(on=OSError), True),
        (ConnectionError(), Retry(on=OSError), False),
        (ConnectionError(), Retry(on=(ValueError, OSError)), False),
        (SystemExit(), Retry(on=OSError), True),
        (SystemExit(), Retry(on=BaseException), False),
        (SystemExit(), Retry(give_up_on=SystemExit), True),
        (ConnectionError(), Retry(on=OSError, give_up_on=ConnectionError), True),
        (KeyError(), Retry(give_up_on=(LookupError,)), True),
        (OSError(), Retry(on=()), True),
    ],
)
def test_the_kinds_of_errors_decide(error: BaseException, policy: Retry, permanent: bool) -> None:
    assert failed(error, policy, 0).permanent == permanent


@pytest.mark.parametrize("attempts", range(4))
def test_retry_after_is_exact_counts_and_ends_with_the_attempts(attempts: int) -> None:
    outcome = outcome_of(RetryAfter(7.5, "429"), Retry(3, on=OSError), attempts, lambda: 1.0)
    assert outcome == Failed("RetryAfter: 429", None, 7.5, permanent=attempts >= 2)


def test_a_permanent_error_is_permanent_at_once_and_so_are_its_kinds() -> None:
    class Gone(PermanentError):
        pass

    assert failed(PermanentError("no such user"), Retry(), 0) == Failed(
        "PermanentError: no such user", None, permanent=True
    )
    assert failed(Gone(), Retry(on=Gone), 0).permanent


@given(st.integers(0, 10**6), st.integers(1, 10), st.floats(0, 1e9))
def test_a_snooze_never_costs_anything(attempts: int, most: int, delay: float) -> None:
    assert outcome_of(Snooze(delay), Retry(most), attempts) == Rescheduled(delay, "snooze")


def test_a_snooze_may_say_why() -> None:
    assert outcome_of(Snooze(timedelta(minutes=1), "closed"), Retry(), 0) == Rescheduled(60, "snooze: closed")


def test_chance_reaches_the_delay_and_the_traceback_the_outcome() -> None:
    outcome = outcome_of(ValueError(), Retry(), 0, lambda: 1.0, traceback="Traceback ...")
    assert outcome == Failed("ValueError", "Traceback ...", 18.75)


@pytest.mark.parametrize("kind", [RetryAfter, Snooze])
@pytest.mark.parametrize("delay", [-1, float("inf"), "soon", None])
def test_a_delay_that_is_none_is_refused_where_it_is_raised(kind: type[Exception], delay: object) -> None:
    with pytest.raises(InvalidArgument, match="delay"):
        kind(delay)


@pytest.mark.parametrize("raised", [RetryAfter(3, "why"), Snooze(4)])
def test_control_exceptions_survive_a_pickle(raised: RetryAfter | Snooze) -> None:
    copy = pickle.loads(pickle.dumps(raised))  # noqa: S301
    assert (type(copy), copy.delay_s, str(copy)) == (type(raised), raised.delay_s, str(raised))


def test_an_error_that_cannot_be_printed_still_has_a_message() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    assert "Hostile" in message_of(Hostile())
    assert "\0" not in message_of(ValueError("a\0b"))
