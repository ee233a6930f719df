"""Whatever a handler raises is captured as text, and what it asks for as data."""

from __future__ import annotations

import pytest

from holdfast.worker.children import Raised, Returned
from tests.worker.children.conftest import Hand

pytestmark = pytest.mark.anyio


async def _raised(hand: Hand, task: str, payload: object = None) -> Raised:
    reply = await hand.run(task, payload)
    assert isinstance(reply, Raised), reply
    assert await hand.run("echo", "next") == Returned("next")
    return reply


async def test_an_error_is_told_with_its_traceback_and_without_our_frames(hand: Hand) -> None:
    reply = await _raised(hand, "raise_kind", "KeyError")
    assert (reply.kind, reply.message, reply.control, reply.ran) == ("KeyError", "'name'", None, True)
    assert reply.lineage == ("KeyError", "LookupError", "Exception", "BaseException")
    assert "in raise_kind" in reply.traceback
    assert reply.traceback.endswith("KeyError: 'name'\n")
    assert "child.py" not in reply.traceback


@pytest.mark.parametrize("task", ["raise_kind", "raise_kind_async"])
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        ("SystemExit", "SystemExit"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("GeneratorExit", "GeneratorExit"),
        ("CancelledError", "asyncio.exceptions.CancelledError"),
    ],
)
async def test_what_is_no_exception_is_captured_too(hand: Hand, task: str, raised: str, kind: str) -> None:
    reply = await _raised(hand, task, raised)
    assert reply.kind == kind
    assert reply.control is None
    assert "in raise_kind" in reply.traceback


async def test_endless_recursion_is_an_error_like_any_other(hand: Hand) -> None:
    reply = await _raised(hand, "recurse")
    assert reply.kind == "RecursionError"
    assert "in recurse" in reply.traceback


async def test_running_out_of_memory_is_an_error_like_any_other(hand: Hand) -> None:
    assert (await _raised(hand, "use_all_memory")).kind == "MemoryError"


async def test_an_error_that_cannot_be_printed_is_told_as_far_as_possible(hand: Hand) -> None:
    reply = await _raised(hand, "raise_kind", "Unprintable")
    assert reply.kind == "tests.worker.children.app.Unprintable"
    assert "could not be had: SystemExit" in reply.message
    assert "in raise_kind" in reply.traceback


async def test_text_that_cannot_be_stored_is_made_storable(hand: Hand) -> None:
    reply = await _raised(hand, "raise_kind", "Surrogate")
    assert reply.message.startswith("half \\ud800 and \\x00")
    reply.traceback.encode()


@pytest.mark.parametrize(
    ("raised", "control"),
    [
        ("RetryAfter", {"kind": "RetryAfter", "delay_s": 7.5, "reason": "rate limit"}),
        ("Snooze", {"kind": "Snooze", "delay_s": 60.0, "reason": ""}),
        ("PermanentError", {"kind": "PermanentError", "delay_s": None, "reason": "no such customer"}),
        ("JobCancelled", {"kind": "JobCancelled", "delay_s": None, "reason": "I give up"}),
    ],
)
@pytest.mark.parametrize("task", ["raise_kind", "raise_kind_async"])
async def test_what_an_error_asks_for_is_told_as_data(
    hand: Hand, task: str, raised: str, control: dict[str, object]
) -> None:
    assert (await _raised(hand, task, raised)).control == control


@pytest.mark.parametrize(("result", "type_name"), [("set", "set"), ("nested", "set")])
async def test_a_result_that_json_cannot_say_is_a_permanent_error_that_names_the_type(
    hand: Hand, result: str, type_name: str
) -> None:
    reply = await _raised(hand, "return_unsendable", result)
    assert reply.kind == "holdfast.errors.PayloadError"
    assert reply.control is not None
    assert reply.control["kind"] == "PermanentError"
    assert type_name in reply.message
    assert "result" in reply.message


async def test_a_result_that_fights_back_is_an_error_of_the_job(hand: Hand) -> None:
    await _raised(hand, "return_unsendable", "hostile")


async def test_an_unknown_task_is_the_apps_to_complain_about(hand: Hand) -> None:
    reply = await _raised(hand, "no_such_task")
    assert (reply.kind, reply.message) == ("KeyError", "'no_such_task'")
