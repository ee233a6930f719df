"""`holdfast enqueue`: a job from a shell is a job like any other."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import main
from holdfast.domain.job import Job
from holdfast.store import SyncStore


class Shell:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.store = SyncStore(dsn)

    def enqueue(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["enqueue", *arguments, "--dsn", self._dsn])

    def made(self, *arguments: str) -> Job:
        answer = self.enqueue(*arguments)
        assert answer.exit_code == 0, answer.stderr
        job = self.store.get_job(answer.stdout.removesuffix("\n"))
        assert job is not None
        return job


@pytest.fixture
def shell(database: str) -> Generator[Shell]:
    made = Shell(database)
    yield made
    made.store.close()


@pytest.mark.parametrize(
    ("arguments", "payload"),
    [
        ([], {"args": [], "kwargs": {}}),
        (["to=ada", "copies=2"], {"args": [], "kwargs": {"to": "ada", "copies": 2}}),
        (
            ['n="42"', "flag=true", "zip=01234"],
            {"args": [], "kwargs": {"n": "42", "flag": True, "zip": "01234"}},
        ),
        (["a=b=c", "empty="], {"args": [], "kwargs": {"a": "b=c", "empty": ""}}),
        (["--args", '["ada", 2]', "fast=true"], {"args": ["ada", 2], "kwargs": {"fast": True}}),
        (["--args", '{"to": "ada"}'], {"args": [], "kwargs": {"to": "ada"}}),
        (["--payload", "[1, null]"], [1, None]),
        (["n=NaN"], {"args": [], "kwargs": {"n": "NaN"}}),
    ],
)
def test_arguments_travel_as_a_task_would_send_them(shell: Shell, arguments: list[str], payload: Any) -> None:
    job = shell.made("shop.send", *arguments)
    assert (job.task, job.payload) == ("shop.send", payload)


def test_every_option_is_the_jobs(shell: Shell) -> None:
    shell.made("t", "--id", "parent")
    job = shell.made(
        *(
            "t",
            "--id",
            "mine",
            "--queue",
            "mail",
            "--priority",
            "7",
            "--tag",
            "a",
            "--tag",
            "b",
            "--key",
            "k",
        ),
        *("--resource", "smtp", "--max-attempts", "3", "--timeout", "1m30s", "--wait-for", "parent"),
    )
    assert (job.job_id, job.queue, job.priority, job.tags) == ("mine", "mail", 7, ("a", "b"))
    assert (job.singleton_key, job.resource_keys, job.max_attempts) == ("k", ("smtp",), 3)
    assert (job.timeout_s, job.wait_for) == (90.0, ("parent",))


@pytest.mark.parametrize(("delay", "seconds"), [("90", 90), ("5m", 300), ("1h30m", 5400), ("0.5", 0.5)])
def test_a_delay_is_written_as_people_write_it(shell: Shell, delay: str, seconds: float) -> None:
    job = shell.made("t", "--delay", delay)
    assert (job.available_at - job.created_at).total_seconds() == pytest.approx(seconds, abs=0.2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ada"], "write NAME=VALUE"),
        (["=x"], "write NAME=VALUE"),
        (["a=1", "a=2"], "given twice"),
        (["--args", "{"], "--args is not JSON"),
        (["--args", "3"], "a list or an object"),
        (["--payload", "NaN"], "--payload is not JSON"),
        (["--payload", "{}", "a=1"], "leave --args and NAME=VALUE out"),
        (["--delay", "soon"], "is no duration"),
        (["--delay", ""], "is no duration"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(shell: Shell, arguments: list[str], says: str) -> None:
    answer = shell.enqueue("t", *arguments)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert says in answer.stderr


def test_an_id_that_is_taken_is_refused(shell: Shell) -> None:
    shell.made("t", "--id", "one")
    again = shell.enqueue("t", "--id", "one")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "one" in again.stderr
