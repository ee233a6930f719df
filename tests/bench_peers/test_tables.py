"""The tables say what was measured, and only between their markers."""

from pathlib import Path

import pytest

from bench.peers.__main__ import PAGE, versions
from bench.peers.catalogue import PEERS
from bench.peers.results import Figures, Results, median, read
from bench.peers.tables import BEGIN, END, put_between_markers, results_table

HOLDFAST = Figures(50_000, 1_500, 30_000, 40_000, 1.5, 6.0, 100_000)
PGQUEUER = Figures(40_000, 1_000, 12_000, 20_000, 2.5, 11.0, 50_000)
HUEY = Figures(7_000, 5_000, 2_500, 6_000, 0.6, 3.1, 10_000)


def results(**figures: Figures) -> Results:
    by_peer = {key: [one] for key, one in figures.items()}
    return Results("2026-01-02", "2 cores", "18.1", True, 1, by_peer)


def rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.startswith("| ") and "---" not in line]


def test_each_contender_has_a_row_with_the_ratio_of_holdfast_to_it() -> None:
    table = results_table(results(pgqueuer=PGQUEUER, holdfast=HOLDFAST), PEERS, versions())
    _, first, second = rows(table)
    assert first.startswith("| **Holdfast** | 50,000 | 1,500 | 30,000 | 40,000 | 1.5 / 6.0 | – | 100,000 |")
    assert "| PgQueuer 1." in second
    assert "| 12,000 | 20,000 | 2.5 / 11.0 | 2.50 / 2.00 | 50,000 |" in second


def test_redis_is_a_table_of_its_own() -> None:
    table = results_table(results(huey=HUEY, holdfast=HOLDFAST), PEERS, versions())
    postgresql, redis = table.split("On Redis, as context:")
    assert "Huey" not in postgresql
    assert "Huey" in redis


def test_machine_date_server_and_durability_are_said() -> None:
    table = results_table(results(holdfast=HOLDFAST), PEERS, versions())
    assert table.startswith(
        "2026-01-02, 2 cores; PostgreSQL 18.1, `fsync` and `synchronous_commit` on; one round."
    )


def test_a_contender_that_failed_is_named_and_has_no_figures() -> None:
    failed = results(holdfast=HOLDFAST)
    failed.failures["saq"] = "drain with 2 process(es): 3 missing, 0 repeated, 0 never enqueued"
    table = results_table(failed, PEERS, versions())
    assert "- saq: drain with 2 process(es): 3 missing" in table
    assert len(rows(table)) == 2


def test_several_rounds_come_to_their_medians() -> None:
    slow = Figures(40_000, 1_000, 10_000, 20_000, 9.0, 60.0, 100_000)
    fast = Figures(60_000, 2_000, 35_000, 50_000, 1.0, 4.0, 100_000)
    assert median([slow, HOLDFAST, fast]) == HOLDFAST


def test_results_come_back_from_json_as_they_were(tmp_path: Path) -> None:
    written = results(holdfast=HOLDFAST, huey=HUEY)
    written.write(tmp_path / "results.json")
    assert read(tmp_path / "results.json") == written


def test_only_what_is_between_the_markers_changes() -> None:
    page = f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n"
    assert put_between_markers(page, "new") == f"before\n\n{BEGIN}\n\nnew\n\n{END}\n\nafter\n"


def test_a_page_without_markers_is_left_alone() -> None:
    with pytest.raises(SystemExit, match="lacks the lines"):
        put_between_markers("before\n\nafter\n", "new")


def test_the_page_of_benchmarks_has_the_markers() -> None:
    assert "new" in put_between_markers(PAGE.read_text(), "new")
