"""`holdfast jobs` and `dead` by query: what is listed, and what is done to all that match."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest

from holdfast.app import Holdfast
from holdfast.cli.listing import Column, duration, fitted
from holdfast.cli.safe import lines, one_line
from holdfast.console import search
from tests.cli.program import holdfast, on_terminal
from tests.cli.test_jobs import Jobs, ids
from tests.console.conftest import Shop

ODD = "\x1b[31mred\x1b[0m [bold]fat[/bold] \u202egnp.exe\ttab\nline"


@pytest.fixture
def jobs(database: str) -> Any:
    made = Jobs(database)
    yield made
    made.store.close()


# Listing


def test_a_list_is_narrowed_by_a_query(jobs: Jobs, database: str) -> None:
    jobs.waiting("a", tags=["red"], payload={"user": 42})
    jobs.waiting("b", queue="mail")
    jobs.dead("c")
    assert ids(jobs.run("jobs", "list", "queue:mail,once-* -state:DEAD"))[1:] == ["b"]
    assert ids(jobs.run("jobs", "list", "queue:default", "args.user:42"))[1:] == ["a"]
    assert ids(jobs.run("jobs", "list", "--tag", "red", "-q", "-queue:mail"))[1:] == ["a"]
    minus = holdfast("jobs", "list", "--", "-queue:mail", "-state:DEAD", dsn=database).stdout.splitlines()
    assert [line.split()[0] for line in minus] == ["JOB_ID", "a"]
    assert ids(jobs.run("dead", "list", 'error:"no such"'))[1:] == ["c"]
    assert jobs.run("dead", "list", "error:timeout").stderr == "No dead jobs.\n"


def test_a_list_goes_on_where_another_ended(jobs: Jobs) -> None:
    jobs.waiting("a", "b", "c")
    first = jobs.run("jobs", "list", "--limit", "2")
    place = re.search(r"--after (\S+)", first.stderr)
    assert place is not None
    assert ids(jobs.run("jobs", "list", "--after", place[1]))[1:] == ["a"]
    assert jobs.run("jobs", "list", "--after", "there").exit_code == 1


def test_what_is_to_be_said_about_a_list_of_json_goes_to_stderr(jobs: Jobs) -> None:
    jobs.waiting("a", "b")
    listed = jobs.run("jobs", "list", "--json", "--limit", "1")
    assert json.loads(listed.stdout)["job_id"] == "b"
    assert "--after" in listed.stderr


def test_a_search_that_stopped_says_so_and_how_to_go_on(
    jobs: Jobs, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.waiting("needle")
    conn.execute("select holdfast.submit_jobs(p_queues => array_fill('hay'::text, array[1500]))")
    monkeypatch.setattr(search, "MOST_LOOKED", 1000)
    stopped = jobs.run("jobs", "list", "task:shop.send")
    assert (stopped.exit_code, stopped.stdout) == (0, "")
    assert "Looked at the latest 1,000 jobs: older ones may match too." in stopped.stderr
    place = re.search(r"--after (\S+)", stopped.stderr)
    assert place is not None
    assert ids(jobs.run("jobs", "list", "task:shop.send", "--after", place[1]))[1:] == ["needle"]


def test_a_list_longer_than_a_page_is_whole(jobs: Jobs, conn: psycopg.Connection[Any]) -> None:
    conn.execute("select holdfast.submit_jobs(p_queues => array_fill('hay'::text, array[2500]))")
    listed = jobs.run("jobs", "list", "--json", "--limit", "2400").stdout.splitlines()
    assert len({json.loads(line)["job_id"] for line in listed}) == 2400


def test_strange_names_are_shown_harmlessly(jobs: Jobs, database: str) -> None:
    jobs.waiting(f"id {ODD}", tags=[ODD])
    shown = jobs.run("jobs", "list").stdout + jobs.run("jobs", "show", f"id {ODD}").stdout
    seen = on_terminal("jobs", "list", dsn=database, columns=200).stdout
    for text in (shown, seen):
        assert "\x1b[31m" not in text
        assert "\u202e" not in text
        assert "\\x1b[31mred\\x1b[0m [bold]fat[/bold] \\u202egnp.exe\\ttab\\nline" in text
    (line,) = jobs.run("jobs", "list", "--json").stdout.splitlines()
    assert json.loads(line)["job_id"] == f"id {ODD}"


def test_an_id_is_printed_as_it_is_for_programs_and_harmlessly_for_people(database: str) -> None:
    odd = "\x1b[31mred"
    assert holdfast("enqueue", "t", "--id", odd, dsn=database).stdout == f"{odd}\n"
    assert on_terminal("enqueue", "t", "--id", f"{odd}2", dsn=database).stdout == "\\x1b[31mred2\n"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_table_fits_the_terminal(jobs: Jobs, database: str, columns: int) -> None:
    jobs.waiting("order-1", queue="a-rather-long-name-of-a-queue")
    jobs.dead("order-2")
    shown = on_terminal("jobs", "list", dsn=database, columns=columns)
    assert shown.code == 0
    rows = re.sub(r"\x1b\[\d*m", "", shown.stdout).splitlines()
    assert len(rows) == 3
    assert max(map(len, rows)) <= columns
    assert rows[1].startswith("order-2")
    assert ("ATTEMPTS" in rows[0]) == (columns == 120)


def test_a_watched_list_shows_what_comes(jobs: Jobs, database: str) -> None:
    jobs.waiting("first")

    def enough(shown: str) -> bool:
        if "first" in shown and "second" not in shown:
            jobs.waiting("second") if jobs.states("second") == [None] else None
        return "second" in shown

    assert on_terminal("jobs", "list", "--watch", "--every", "0.2", dsn=database, until=enough).code == 0


# Acting on all that match


def test_all_that_match_are_cancelled(jobs: Jobs) -> None:
    jobs.waiting("a", "b", queue="mail")
    jobs.waiting("c")
    result = jobs.run("jobs", "cancel", "--query", "queue:mail", "--yes", "--reason", "moved")
    assert (result.exit_code, set(ids(result))) == (0, {"a", "b"})
    assert "2 jobs to cancel." in result.stderr
    assert jobs.states("c") == ["INITIAL_PENDING"]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["jobs", "cancel", "-q", "queue:default"], ["INITIAL_PENDING", "DEAD"]),
        (["jobs", "cancel", "a"], ["INITIAL_PENDING", "DEAD"]),
        (["jobs", "retry", "-q", "state:DEAD"], ["INITIAL_PENDING", "DEAD"]),
        (["jobs", "retry", "z"], ["INITIAL_PENDING", "DEAD"]),
        (["jobs", "delete", "-q", "state:DEAD"], ["INITIAL_PENDING", "DEAD"]),
        (["jobs", "delete", "z"], ["INITIAL_PENDING", "DEAD"]),
        (["dead", "retry", "--all"], ["INITIAL_PENDING", "DEAD"]),
        (["dead", "retry", "z"], ["INITIAL_PENDING", "DEAD"]),
    ],
)
def test_a_dry_run_says_which_and_does_nothing(jobs: Jobs, arguments: list[str], kept: list[str]) -> None:
    jobs.waiting("a")
    jobs.dead("z")
    result = jobs.run(*arguments, "--dry-run")
    assert (result.exit_code, ids(result)) == (0, ["a"] if "cancel" in arguments else ["z"])
    assert "nothing was done" in result.stderr
    assert jobs.states("a", "z") == kept


def test_a_limit_holds_and_all_lifts_it(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.waiting(*(f"job {number}" for number in range(5)))
    some = jobs.run("jobs", "cancel", "-q", "queue:default", "--limit", "2", "--yes")
    assert "2 jobs to cancel (the latest of 5 that match; --all takes all)." in some.stderr
    assert len(some.stdout.splitlines()) == 2
    assert len(jobs.run("jobs", "cancel", "-q", "queue:default", "--all", "--yes").stdout.splitlines()) == 3


def test_more_than_a_thousand_need_a_word(jobs: Jobs, conn: psycopg.Connection[Any]) -> None:
    conn.execute("select holdfast.submit_jobs(p_queues => array_fill('hay'::text, array[1200]))")
    assert "1,000 jobs to cancel (the latest of 1,200" in jobs.run("jobs", "cancel", "--queue", "hay").stderr
    done = jobs.run("jobs", "cancel", "--queue", "hay", "--all", "--yes")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 1200)


def test_what_cannot_be_deleted_is_said_and_the_rest_is_gone(jobs: Jobs) -> None:
    jobs.dead("a", "b")
    jobs.waiting("child", wait_for=["a"])
    result = jobs.run("jobs", "delete", "-q", "state:DEAD", "--yes")
    assert result.exit_code == 1
    assert '1 job could not be changed: delete_jobs: job "child" waits for job "a"' in result.stderr
    assert jobs.states("a", "b") == ["DEAD", None]


def test_nothing_to_do_is_done_quickly(jobs: Jobs) -> None:
    result = jobs.run("jobs", "cancel", "-q", "queue:nobody", "--yes")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 jobs to cancel." in result.stderr


def test_a_bar_is_shown_to_people_while_it_takes_long(database: str) -> None:
    with Holdfast(database) as app:
        Shop(app).submit(*(f"job {number}" for number in range(600)))
    shown = on_terminal("jobs", "delete", "-q", "queue:default state:UNSCHEDULED", "-y", dsn=database)
    assert "0 jobs to delete." in shown.stdout
    on_terminal("jobs", "cancel", "-q", "queue:default", "--yes", dsn=database)
    shown = on_terminal("jobs", "delete", "-q", "queue:default", "--yes", dsn=database)
    assert "600 jobs to delete." in shown.stdout
    assert "100%" in shown.stdout
    assert "600 deleted." in shown.stdout


# Small parts


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59.6, "1m"), (61, "1m1s"), (3600, "1h"), (3661, "1h1m"), (90061, "1d1h"), (-5, "0s")],
)
def test_a_duration_has_the_two_units_that_matter(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_odd_characters_are_spelled_out() -> None:
    assert one_line("a\x00\x9b\u2028b\ud800") == "a\\x00\\x9b\\u2028b\\ud800"
    assert lines("a\n\tb\x1b") == "a\n    b\\x1b"
    assert one_line("ünï [red] 日本") == "ünï [red] 日本"


def test_columns_that_give_way_are_cut_first_and_then_some_are_left_out() -> None:
    columns = [Column("id"), Column("text", gives_way=True), Column("extra", left_out=1)]
    assert fitted(columns, [10, 30, 10], 60) == {0: 10, 1: 30, 2: 10}
    assert fitted(columns, [10, 30, 10], 40) == {0: 10, 1: 16, 2: 10}
    assert fitted(columns, [10, 30, 10], 30) == {0: 10, 1: 18}
    assert fitted(columns, [10, 30, 10], 16) == {0: 7, 1: 7}
