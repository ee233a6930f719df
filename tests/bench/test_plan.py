from __future__ import annotations

import pytest

from holdfast.bench.claim import Medians, Plan
from holdfast.bench.contenders import Setting
from holdfast.bench.percentiles import percentile


def test_the_headline_is_batch_100_and_one_client() -> None:
    assert Plan().headline == Setting(batch=100, clients=1)


def test_the_headline_is_the_nearest_that_was_measured() -> None:
    assert Plan(batches=(1, 50, 1000), clients=(2, 4)).headline == Setting(batch=50, clients=2)


@pytest.mark.parametrize(
    ("setting", "turns"),
    [
        (Setting(batch=100, clients=1), 40),
        (Setting(batch=100, clients=2), 20),
        (Setting(batch=1, clients=1), 200),
        (Setting(batch=1, clients=2), 100),
        (Setting(batch=1000, clients=2), 4),
    ],
)
def test_a_run_drains_about_the_backlog_and_never_in_too_many_or_too_few_calls(
    setting: Setting, turns: int
) -> None:
    assert Plan(jobs=4_000).turns(setting, most_calls=200) == turns


def test_ratios_are_to_the_bare_queue() -> None:
    figure = Medians(engine=30, one_call=45, bare=60, spread=0.1)
    assert (figure.ratio, figure.one_call_ratio) == (0.5, 0.75)


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 50) == 51
    assert percentile(values, 99) == 100
    assert percentile([7.0], 99) == 7
