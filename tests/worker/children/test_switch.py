"""The switch that stops a handler, with its signal and its reason in every order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator

import pytest

from holdfast.errors import JobCancelled
from holdfast.worker.children.stopping import StopSwitch
from tests.worker.children.conftest import PATIENCE_S


@pytest.fixture
def switch() -> Generator[StopSwitch]:
    """One that has this process's SIGTERM, and is armed."""
    made = StopSwitch()
    before = signal.signal(signal.SIGTERM, made._on_sigterm)
    made.arm()
    yield made
    signal.signal(signal.SIGTERM, before)


def _signal() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _ask_and_wait(switch: StopSwitch) -> None:
    asker = threading.Thread(target=switch.ask, args=("cancelled",))
    asker.start()
    asker.join(PATIENCE_S)
    time.sleep(PATIENCE_S)  # to be interrupted


def test_a_signal_without_a_reason_stops_nothing(switch: StopSwitch) -> None:
    _signal()
    assert switch.why is None


def test_a_signal_after_its_reason_stops_the_handler(switch: StopSwitch) -> None:
    switch.ask("cancelled")
    with pytest.raises(JobCancelled, match="cancelled"):
        _signal()


def test_a_signal_that_overtakes_its_reason_is_not_lost(switch: StopSwitch) -> None:
    _signal()
    with pytest.raises(JobCancelled, match="cancelled"):
        _ask_and_wait(switch)


def test_a_stop_that_comes_before_the_handler_is_delivered_with_it(switch: StopSwitch) -> None:
    switch.disarm()
    switch.ask("cancelled")
    _signal()
    with pytest.raises(JobCancelled):
        switch.arm()


def test_a_stop_is_delivered_once(switch: StopSwitch) -> None:
    switch.ask("cancelled")
    with pytest.raises(JobCancelled):
        _signal()
    _signal()


def test_a_stop_waits_for_the_end_of_what_must_not_be_cut(switch: StopSwitch) -> None:
    switch.ask("cancelled")
    reached: list[str] = []
    with pytest.raises(JobCancelled), switch:  # noqa: PT012
        with switch:
            _signal()
            reached.append("inner")
        reached.append("outer")
    assert reached == ["inner", "outer"]


def test_nothing_is_delivered_when_the_handler_is_over(switch: StopSwitch) -> None:
    switch.disarm()
    switch.ask("cancelled")
    _signal()
