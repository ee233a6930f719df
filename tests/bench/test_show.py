from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.bench import show
from holdfast.bench.costs import Costs
from holdfast.bench.report import Figure, Finding, Report
from holdfast.errors import InvalidArgument


def report(ratio: float | None = None, **changes: float) -> Report:
    finding = Finding(
        jobs=100,
        jobs_per_s=changes.get("jobs_per_s", 300.0),
        reference_jobs_per_s=600.0,
        ratio=ratio,
        exactly_once=True,
        costs=Costs(jobs=100, wal_bytes=5_000, commits=10, postgres_cpu_s=None),
        measured="ours",
        reference="theirs",
        figures=[Figure("wait_ms", 1.23456, "a wait", "ms", 2), Figure("parts", {"a": 2})],
    )
    return Report("drain", "≥ 0.7", finding, "18.1", durable=True, seconds=1.26)


def test_the_ratio_is_jobs_to_reference_unless_the_scenario_says_otherwise() -> None:
    assert report().facts()["ratio"] == 0.5
    assert report(ratio=2.0).facts()["ratio"] == 2.0


def test_a_finding_without_reference_must_say_its_ratio() -> None:
    finding = Finding(1, 1.0, None, True, Costs(), "ours")
    with pytest.raises(ValueError, match="must say its ratio"):
        _ = finding.merit


def test_the_facts_begin_with_what_every_scenario_has_and_are_rounded() -> None:
    facts = report().facts()
    assert list(facts)[:5] == ["scenario", "jobs_per_s", "reference_jobs_per_s", "ratio", "exactly_once"]
    assert (facts["wait_ms"], facts["seconds"], facts["wal_bytes_per_job"]) == (1.23, 1.3, 50)
    assert facts["postgres_cpu_s_per_10k_jobs"] is None


def test_a_table_says_unknown_where_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    show.show(report())
    shown = capsys.readouterr().out
    assert "unknown" in shown
    assert "1.23 ms" in shown
    assert "each exactly once" in shown


def test_a_comparison_has_old_new_and_ratio_of_every_number_both_have() -> None:
    old = {"scenario": "drain", "jobs_per_s": 100, "gone": 1, "parts": {"a": 2}, "none": None, "zero": 0}
    new = {"scenario": "drain", "jobs_per_s": 150, "new": 1, "parts": {"a": 1}, "none": None, "zero": 3}
    assert show.compare(old, new) == {
        "jobs_per_s": (100, 150, 1.5),
        "parts.a": (2, 1, 0.5),
        "zero": (0, 3, None),
    }


def test_a_file_keeps_the_latest_of_each_scenario(tmp_path: Path) -> None:
    path = tmp_path / "figures"
    show.save(path, {"scenario": "drain", "jobs_per_s": 1})
    show.save(path, {"scenario": "claim", "jobs_per_s": 2})
    show.save(path, {"scenario": "drain", "jobs_per_s": 3})
    assert show.read(path) == {
        "drain": {"scenario": "drain", "jobs_per_s": 3},
        "claim": {"scenario": "claim", "jobs_per_s": 2},
    }


@pytest.mark.parametrize("content", ["", "no json\n", '["a"]\n', "{}\n"])
def test_a_file_that_nobody_saved_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "figures"
    path.write_text(content)
    if not content:
        assert show.read(path) == {}
        return
    with pytest.raises(InvalidArgument, match="figures holds no figures"):
        show.read(path)
