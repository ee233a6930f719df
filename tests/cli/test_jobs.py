"""`holdfast jobs` and `holdfast dead`: data on stdout, talk on stderr, nothing destroyed unasked."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from holdfast.cli import main
from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed, Failed
from holdfast.store import SyncStore


class Jobs:
    """Some jobs, and the command."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.store = SyncStore(dsn)

    def run(self, *arguments: str, answer: str | None = None) -> Result:
        return CliRunner().invoke(main, [*arguments, "--dsn", self._dsn], input=answer)

    def waiting(self, *job_ids: str, queue: str = "default", **more: Any) -> None:
        self.store.submit_jobs(NewJob(job_id=name, queue=queue, task="shop.send", **more) for name in job_ids)

    def ended(self, job_id: str, outcome: Completed | Failed, queue: str = "default") -> None:
        self.store.submit_jobs([NewJob(job_id=job_id, queue=f"once-{queue}", payload=[1], task="shop.send")])
        (job,) = self.store.claim_jobs("ann", [f"once-{queue}"], 1)
        self.store.settle_jobs([(job.job_id, job.lease_id, outcome)])

    def dead(self, *job_ids: str, queue: str = "default") -> None:
        for job_id in job_ids:
            self.ended(job_id, Failed("no such address", "Traceback: line 7", permanent=True), queue)

    def states(self, *job_ids: str) -> list[str | None]:
        found = [self.store.get_job(job_id) for job_id in job_ids]
        return [None if job is None else job.state.value for job in found]


@pytest.fixture
def jobs(database: str) -> Any:
    made = Jobs(database)
    yield made
    made.store.close()


def ids(result: Result) -> list[str]:
    return [line.split()[0] for line in result.stdout.splitlines()]


# Looking


def test_a_list_is_a_table_the_latest_first(jobs: Jobs) -> None:
    jobs.waiting("first", "second")
    result = jobs.run("jobs", "list")
    assert result.exit_code == 0
    assert ids(result) == ["JOB_ID", "second", "first"]
    assert "INITIAL_PENDING (READY)" in result.stdout


def test_a_list_can_be_narrowed(jobs: Jobs) -> None:
    jobs.waiting("a", tags=["red"])
    jobs.waiting("b", queue="mail")
    jobs.dead("c")
    assert ids(jobs.run("jobs", "list", "--queue", "mail"))[1:] == ["b"]
    assert ids(jobs.run("jobs", "list", "--state", "dead"))[1:] == ["c"]
    assert ids(jobs.run("jobs", "list", "--tag", "red"))[1:] == ["a"]
    assert ids(jobs.run("jobs", "list", "--state", "INITIAL_PENDING", "--task", "shop.send"))[1:] == [
        "b",
        "a",
    ]
    limited = jobs.run("jobs", "list", "--limit", "1")
    assert len(ids(limited)) == 2
    assert "--limit 10" in limited.stderr


def test_an_empty_list_prints_no_data(jobs: Jobs) -> None:
    result = jobs.run("jobs", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No such jobs.\n"


def test_a_list_as_json_has_a_line_a_job_by_the_columns_of_the_view(
    jobs: Jobs, conn: psycopg.Connection[Any]
) -> None:
    jobs.waiting("a", payload={"to": "ann"})
    jobs.waiting("b", payload=b"\x00\xff")
    jobs.dead("c")
    result = jobs.run("jobs", "list", "--json")
    c, b, a = (json.loads(line) for line in result.stdout.splitlines())
    columns = {column.name for column in conn.execute("select * from holdfast.job_details").description or ()}
    assert set(a) == set(b) == set(c) == columns - {"number"}
    assert (a["payload"], a["payload_bytes"], a["next_need"]) == ({"to": "ann"}, None, "default")
    assert (b["payload"], b["payload_bytes"]) == (None, "AP8=")
    assert (c["state"], c["status"], c["errors"][0]["message"]) == ("DEAD", "DEAD", "no such address")


def test_show_tells_all_about_a_job(jobs: Jobs) -> None:
    jobs.waiting("parent")
    jobs.waiting("child", wait_for=["parent"], payload={"to": "ann"}, tags=["red"], resource_keys=["smtp"])
    shown = jobs.run("jobs", "show", "child").stdout
    for part in ("child", "PENDING_JOBS", "parent", '{"to": "ann"}', "red", "smtp", "shop.send"):
        assert part in shown
    assert "waited for by" not in shown
    assert "waited for by  child\n" in jobs.run("jobs", "show", "parent").stdout


def test_show_has_every_error_with_its_traceback(jobs: Jobs) -> None:
    jobs.dead("lost")
    shown = jobs.run("jobs", "show", "lost").stdout
    assert "attempt 1" in shown
    assert "on ann: no such address" in shown
    assert "Traceback: line 7" in shown
    assert json.loads(jobs.run("jobs", "show", "lost", "--json").stdout)["job_id"] == "lost"


def test_a_job_that_is_not_there_is_an_error_in_a_line(jobs: Jobs) -> None:
    result = jobs.run("jobs", "show", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: job nobody")


def test_a_database_without_holdfast_names_the_command(blank_database: str) -> None:
    result = Jobs(blank_database).run("jobs", "list")
    assert result.exit_code == 1
    assert "holdfast migrate up" in result.stderr


# Retrying


@pytest.mark.parametrize("command", ["jobs", "dead"])
def test_retry_brings_dead_jobs_back(command: str, jobs: Jobs) -> None:
    jobs.dead("a", "b")
    result = jobs.run(command, "retry", "a", "b")
    assert (result.exit_code, result.stdout) == (0, "a\nb\n")
    assert "DEAD" not in jobs.states("a", "b")


@pytest.mark.parametrize("command", ["jobs", "dead"])
def test_retry_of_a_job_that_is_not_dead_is_refused_and_nothing_happens(command: str, jobs: Jobs) -> None:
    jobs.dead("a")
    jobs.waiting("b")
    result = jobs.run(command, "retry", "a", "b")
    assert (result.exit_code, result.stdout) == (1, "")
    assert '"b" is INITIAL_PENDING' in result.stderr
    assert jobs.states("a") == ["DEAD"]


def test_dead_jobs_of_a_queue_are_retried_after_a_yes(jobs: Jobs) -> None:
    jobs.dead("a", "b", queue="mail")
    jobs.dead("c")
    refused = jobs.run("dead", "retry", "--queue", "once-mail", answer="n\n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "2 jobs to retry." in refused.stderr
    assert jobs.states("a", "b") == ["DEAD", "DEAD"]
    assert set(ids(jobs.run("dead", "retry", "--queue", "once-mail", answer="y\n"))) == {"a", "b"}
    assert jobs.states("c") == ["DEAD"]
    assert ids(jobs.run("dead", "retry", "--all", "--yes")) == ["c"]


def test_jobs_retry_takes_only_dead_ones_of_those_described(jobs: Jobs) -> None:
    jobs.dead("a")
    jobs.ended("done", Completed())
    jobs.waiting("b", queue="once-default")
    asked = jobs.run("jobs", "retry", "--queue", "once-default")
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert "1 job to retry." in asked.stderr
    assert jobs.run("jobs", "retry", "--queue", "once-default", "--yes").stdout == "a\n"
    assert jobs.run("jobs", "retry", "--state", "COMPLETED", "--yes").exit_code == 1


def test_dead_retry_without_saying_which_is_wrong_usage(jobs: Jobs) -> None:
    assert jobs.run("dead", "retry").exit_code == 2
    assert jobs.run("dead", "retry", "a", "--all").exit_code == 2


def test_dead_list_shows_those_that_died_last_first(jobs: Jobs) -> None:
    assert jobs.run("dead", "list").stderr == "No dead jobs.\n"
    jobs.dead("a")
    jobs.dead("b", queue="mail")
    jobs.waiting("c")
    assert ids(jobs.run("dead", "list"))[1:] == ["b", "a"]
    assert ids(jobs.run("dead", "list", "--queue", "once-mail"))[1:] == ["b"]
    assert json.loads(jobs.run("dead", "list", "--json", "--limit", "1").stdout)["job_id"] == "b"


# Cancelling and deleting


def test_cancel_says_how_many_and_asks(jobs: Jobs) -> None:
    jobs.waiting("a", "b")
    refused = jobs.run("jobs", "cancel", "a", "b")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "2 jobs to cancel." in refused.stderr
    assert "--yes" in refused.stderr
    assert jobs.states("a", "b") == ["INITIAL_PENDING"] * 2
    assert jobs.run("jobs", "cancel", "a", "b", answer="y\n").stdout.split() == ["a", "b"]
    assert jobs.states("a", "b") == ["UNSCHEDULED"] * 2


def test_cancel_by_queue_leaves_out_what_has_ended(jobs: Jobs) -> None:
    jobs.ended("done", Completed())
    jobs.waiting("a", queue="once-default")
    result = jobs.run("jobs", "cancel", "--queue", "once-default", "--yes", "--reason", "not needed")
    assert (result.exit_code, result.stdout) == (0, "a\n")
    assert "1 job to cancel." in result.stderr
    assert "not needed" in jobs.run("jobs", "show", "a").stdout


def test_cancel_prints_those_named_and_says_that_others_follow(jobs: Jobs) -> None:
    jobs.waiting("parent")
    jobs.waiting("child", wait_for=["parent"])
    assert jobs.run("jobs", "cancel", "parent", "--yes").stdout == "parent\n"
    assert jobs.states("parent", "child") == ["UNSCHEDULED"] * 2
    said = " ".join(jobs.run("jobs", "cancel", "--help").stdout.split())
    assert "Prints the ids of those named or matched that were cancelled" in said


def test_cancel_names_those_it_could_not(jobs: Jobs) -> None:
    jobs.waiting("a")
    result = jobs.run("jobs", "cancel", "a", "nobody", "--yes")
    assert (result.exit_code, result.stdout) == (1, "a\n")
    assert "unknown, or ended already: nobody" in result.stderr


def test_delete_asks_and_deletes_what_has_ended(jobs: Jobs) -> None:
    jobs.ended("done", Completed())
    jobs.dead("lost")
    assert jobs.run("jobs", "delete", "done", answer="n\n").exit_code == 1
    assert jobs.states("done") == ["COMPLETED"]
    assert jobs.run("jobs", "delete", "--state", "DEAD", "--yes").exit_code == 0
    assert jobs.run("jobs", "delete", "done", "--yes").exit_code == 0
    assert jobs.states("done", "lost") == [None, None]


def test_delete_by_queue_leaves_out_what_has_not_ended(jobs: Jobs) -> None:
    jobs.ended("done", Completed())
    jobs.waiting("a", queue="once-default")
    result = jobs.run("jobs", "delete", "--queue", "once-default", "--yes")
    assert result.exit_code == 0, result.stderr
    assert jobs.states("done", "a") == [None, "INITIAL_PENDING"]


def test_delete_of_a_job_that_has_not_ended_is_refused(jobs: Jobs) -> None:
    jobs.ended("done", Completed())
    jobs.waiting("a")
    result = jobs.run("jobs", "delete", "a", "done", "--yes")
    assert result.exit_code == 1
    assert jobs.states("a", "done") == ["INITIAL_PENDING", "COMPLETED"]


@pytest.mark.parametrize("verb", ["cancel", "delete", "retry"])
def test_which_jobs_must_be_said_one_way(verb: str, jobs: Jobs) -> None:
    jobs.waiting("a")
    assert jobs.run("jobs", verb, "--yes").exit_code == 2
    assert jobs.run("jobs", verb, "a", "--queue", "default", "--yes").exit_code == 2
    assert jobs.states("a") == ["INITIAL_PENDING"]


def test_a_wrong_state_is_wrong_usage(jobs: Jobs) -> None:
    assert jobs.run("jobs", "list", "--state", "SLEEPING").exit_code == 2
