"""`queues`, `workers`, `resources`, `trace`, `stats`, `top`: tables for people, JSON for programs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.app import Holdfast
from holdfast.cli import main
from tests.cli.program import holdfast, on_terminal
from tests.console.conftest import Shop

ODD = "\x1b[31m[bold]odd"


@pytest.fixture
def shop(database: str) -> Generator[Shop]:
    with Holdfast(database) as app:
        yield Shop(app)


@pytest.fixture
def busy(shop: Shop) -> Shop:
    shop.submit("a", queue=ODD)
    lease = shop.running("now", worker=ODD, singleton_key=ODD, resource_keys=["smtp"])
    shop.store.acquire_resources("now", ["smtp"], lease_id=lease)
    shop.submit("waits", singleton_key=ODD, delay_s=60)
    shop.dead("lost")
    return shop


def run(database: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--dsn", database])


def facts(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


LISTS: dict[tuple[str, ...], int] = {
    ("queues", "list"): 4,
    ("workers",): 1,
    ("resources",): 2,
    ("stats",): 1,
    ("trace", "lost"): 1,
    ("jobs", "list"): 4,
    ("dead", "list"): 1,
}


@pytest.mark.parametrize("command", LISTS)
def test_json_is_a_line_each_and_nothing_else(busy: Shop, database: str, command: tuple[str, ...]) -> None:
    assert len(facts(run(database, *command, "--json"))) == LISTS[command]


@pytest.mark.parametrize("command", [*LISTS, ("top",)])
def test_strange_names_do_nothing_to_a_terminal(busy: Shop, database: str, command: tuple[str, ...]) -> None:
    assert "\x1b[31m" not in run(database, *command).stdout
    seen = on_terminal(*command, dsn=database, columns=160, until=lambda shown: "died last" in shown)
    assert seen.code == 0
    assert "\x1b[31m" not in seen.stdout


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["queues", "list"], "No queue has a live job, and none is paused or limited."),
        (["workers"], "No worker is there."),
        (["resources"], "No resource is held or wanted."),
    ],
)
def test_nothing_is_no_data_and_a_word_for_people(database: str, command: list[str], says: str) -> None:
    result = run(database, *command)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{says}\n")
    assert run(database, *command, "--json").stdout == ""


def test_queues_are_listed_paused_and_resumed(shop: Shop, database: str) -> None:
    shop.submit("a", "b", queue="mail")
    shop.dead("lost")
    assert run(database, "queues", "pause", "mail").stderr == 'Queue "mail" is paused.\n'
    assert run(database, "queues", "pause", "mail").stderr == 'Queue "mail" was paused already.\n'
    mail, once = facts(run(database, "queues", "list", "--json"))
    assert (mail["queue"], mail["due"], once["queue"], once["dead"]) == ("mail", 2, "once", 1)
    assert mail["paused_at"] is not None
    assert shop.store.claim_jobs("ann", ["mail"], 1) == []
    assert run(database, "queues", "resume", "mail").stderr == 'Queue "mail" goes on.\n'
    assert run(database, "queues", "resume", "mail").stderr == 'Queue "mail" was not paused.\n'
    assert len(shop.store.claim_jobs("ann", ["mail"], 1)) == 1
    limited = run(database, "queues", "list", "--limit", "1")
    assert len(limited.stdout.splitlines()) == 2
    assert "1 more" in limited.stderr


def test_queues_are_limited(shop: Shop, database: str) -> None:
    shop.submit("a", "b", "c", queue="mail")
    done = run(database, "queues", "limit", "mail", "1")
    assert done.stderr == 'At most 1 job of queue "mail" may be held at once.\n'
    assert len(shop.store.claim_jobs("ann", ["mail"], 5)) == 1
    (mail,) = facts(run(database, "queues", "list", "--json"))
    assert (mail["held"], mail["due"], mail["max_running"]) == (1, 2, 1)
    assert run(database, "queues", "limit", "mail", "none").stderr == 'Queue "mail" has no limit.\n'
    assert len(shop.store.claim_jobs("ann", ["mail"], 5)) == 2
    for bad in ("0", "-- -1", "many"):
        assert run(database, "queues", "limit", "mail", *bad.split()).exit_code == 2


def test_workers_name_what_they_hold(busy: Shop, database: str) -> None:
    (worker,) = facts(run(database, "workers", "--json"))
    assert (worker["worker_id"], worker["jobs"], worker["job_ids"]) == (ODD, 1, ["now"])


def test_resources_name_their_holders(busy: Shop, database: str) -> None:
    key, smtp = facts(run(database, "resources", "--json"))
    assert (key["kind"], key["waiting"], key["holders"][0]["job_id"]) == ("singleton", 1, "now")
    assert (smtp["kind"], smtp["key"], smtp["capacity"]) == ("resource", "smtp", 1)
    assert "now on" in run(database, "resources").stdout


def test_a_trace_tells_what_happened(busy: Shop, database: str) -> None:
    (event,) = facts(run(database, "trace", "lost", "--json"))
    assert (event["job_id"], event["event"], event["worker_id"]) == ("lost", "job_dead", "ann")
    quiet = run(database, "trace", "a")
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert "the happy path is left out" in quiet.stderr
    assert run(database, "trace", "nobody").exit_code == 1


def test_figures_are_one_line_of_json(busy: Shop, database: str) -> None:
    (seen,) = facts(run(database, "stats", "--json"))
    assert (seen["due"], seen["delayed"], seen["held"], seen["dead"]) == (1, 1, 1, 1)
    assert seen["ended_last_minute"] == {"DEAD": 1}


def test_a_watch_on_a_pipe_prints_again_and_again_until_it_is_interrupted(busy: Shop, database: str) -> None:

    command = [
        sys.executable,
        "-m",
        "holdfast",
        "stats",
        "--json",
        "--watch",
        "--every",
        "0.2",
        "--dsn",
        database,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    assert [json.loads(line)["dead"] for line in lines] == [1, 1, 1]


def test_top_shows_it_all_and_ends_with_ctrl_c(busy: Shop, database: str) -> None:
    once = holdfast("top", dsn=database)
    assert once.code == 0
    for part in ("queues", "workers", "died last", "lost", "no such address"):
        assert part in once.stdout
    live = on_terminal(
        "top", "--every", "0.5", dsn=database, until=lambda shown: shown.count("holdfast top") > 2
    )
    assert live.code == 0
