"""How often a worker's process looks for garbage."""

from __future__ import annotations

import gc
import json
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from holdfast.worker.heap import NEW_OBJECTS, seldom_searched
from tests.worker.program.programs import APP, Shop
from tests.worker.program.test_run_worker import start

CURIOUS = """
import gc, json

@hf.task
async def habits() -> list[int]:
    return [gc.get_threshold()[0], gc.get_freeze_count()]

if __name__ == "__main__":
    hf.run_worker()
    print(json.dumps([gc.get_threshold()[0], gc.get_freeze_count()]), file=sys.stderr)
"""


@pytest.fixture
def collector() -> Generator[None]:
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)
    gc.unfreeze()
    gc.enable()


def test_a_worker_program_looks_for_garbage_less_often_and_as_before_when_it_has_stopped(
    database: str, shop: Shop, tmp_path: Path
) -> None:
    script = tmp_path / "shop.py"
    script.write_text(APP + CURIOUS)
    with start(script, database) as program:
        job = shop.ask("habits")
        shop.wait("COMPLETED", job)
        program.send_signal(signal.SIGTERM)
        _, said = program.communicate(timeout=60)
    (threshold, frozen), after = shop.look(job, "result")[0], json.loads(said.splitlines()[-1])
    assert threshold == NEW_OBJECTS
    assert frozen > 10_000
    assert after == [gc.get_threshold()[0], 0]


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("threshold", [0, NEW_OBJECTS, 10 * NEW_OBJECTS])
def test_somebody_who_has_chosen_how_often_keeps_his_choice(threshold: int) -> None:
    gc.set_threshold(threshold, 5, 5)
    with seldom_searched():
        assert gc.get_threshold() == (threshold, 5, 5)
        assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collector")
def test_a_collector_that_is_switched_off_and_what_is_frozen_are_left_alone() -> None:
    gc.disable()
    with seldom_searched():
        assert gc.get_freeze_count() == 0
    gc.enable()
    gc.freeze()
    with seldom_searched():
        assert gc.get_threshold()[0] < NEW_OBJECTS
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("collector")
def test_circles_of_a_handler_are_found_all_the_same() -> None:
    class Circle:
        left = 0

        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            Circle.left += 1

    with seldom_searched():
        for _ in range(2 * NEW_OBJECTS):
            Circle()
        assert Circle.left > 0
