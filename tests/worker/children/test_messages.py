"""What a handler says while it runs, and where what it prints goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from holdfast.worker.children import Died, Returned
from tests.worker.children.conftest import Hand, Open, ended, request

pytestmark = pytest.mark.anyio


async def test_a_job_that_begins_says_so(hand: Hand) -> None:
    await hand.run("echo", job_id="J1")
    assert hand.messages.all == [("J1", {"type": "started"})]


async def test_progress_is_thinned_out_and_the_last_value_always_arrives(hand: Hand) -> None:
    await hand.run("report_often", 20_000, job_id="J1")
    reports = hand.messages.of("J1", "progress")
    assert reports[0] == {"type": "progress", "done": 0, "total": 20_000, "message": "counting"}
    assert reports[-1]["done"] == 20_000
    assert len(reports) < 2_000


async def test_the_last_progress_arrives_while_the_handler_goes_on(hand: Hand) -> None:
    job = request("report_twice_then_wait")
    running = asyncio.create_task(hand.pool.run(job))
    assert (await hand.messages.wait_for(job.job_id, count=2))["done"] == 2
    assert not running.done()
    hand.pool.announce_shutdown()
    await ended(running)


async def test_log_lines_arrive_with_their_job(hand: Hand) -> None:
    await hand.run("log", job_id="J1")
    first, second, third = hand.messages.of("J1", "log")
    assert first == {
        "type": "log",
        "level": "INFO",
        "message": "from the context",
        "fields": {"order": 7, "where": "shelf"},
    }
    assert second == {
        "type": "log",
        "level": "WARNING",
        "logger": "shop",
        "message": "from logging",
        "fields": {},
    }
    assert "ValueError: wrong" in str(third["traceback"])


async def test_what_is_logged_can_be_more_or_less(open_pool: Open) -> None:
    hand = open_pool(log_level=logging.DEBUG)
    await hand.run("log", job_id="J1")
    assert "too quiet" in [message["message"] for message in hand.messages.of("J1", "log")]


async def test_a_thread_that_outlives_its_job_does_not_speak_for_the_next(hand: Hand) -> None:
    await hand.run("speak_up_later", job_id="J1")
    await hand.run("pause", 0.2, job_id="J2")
    assert hand.messages.of("J2", "log") == []


async def test_a_worker_that_fails_to_take_a_message_does_not_harm_the_job(
    open_pool: Open, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(job_id: str, message: Mapping[str, object]) -> None:
        raise ValueError("not today")

    hand = open_pool(on_message=refuse)
    assert await hand.run("echo", 1) == Returned(1)
    assert "not today" in caplog.text


async def test_what_a_handler_prints_goes_to_the_workers_own_output(
    hand: Hand, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert await hand.run("talk") == Returned("answered")
    out, err = capfd.readouterr()
    assert out == "to stdout\nraw to stdout\nwithout an end"
    assert err == "to stderr\n"


async def test_the_last_words_of_a_child_that_dies_are_seen(
    hand: Hand, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert await hand.run("print_and_die") == Died("exited with code 0")
    assert capfd.readouterr().out == "last words\n"
