from __future__ import annotations

from importlib import import_module
from pathlib import Path

from holdfast.bench.registry import SCENARIOS

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"

WANTED = (
    *("drain", "drain-2p", "enqueue-bulk", "enqueue-one", "latency", "latency-loaded", "claim"),
    *("held-snapshot", "dirty", "backlog-growth", "keys", "limits", "wal", "memory", "stream"),
)


def test_every_scenario_has_a_module_that_measures() -> None:
    assert tuple(SCENARIOS) == WANTED
    for scenario in SCENARIOS.values():
        assert callable(import_module(scenario.module).measure)


def test_every_scenario_is_explained_on_the_page() -> None:
    page = PAGE.read_text()
    for scenario in SCENARIOS.values():
        assert f"| `{scenario.name}` |" in page
        assert scenario.goal in page
