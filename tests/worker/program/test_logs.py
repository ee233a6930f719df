"""Log lines: the same keys in every one, readable whatever is in them, and never a password."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Generator
from time import process_time
from typing import Any

import pytest

from holdfast.worker import logs
from holdfast.worker.logs import JsonLines, TextLines, scrub

KEYS = {"ts", "level", "event", "message", "job_id", "task", "queue", "attempt", "worker_id"}


def record(message: str, *args: object, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("shop", level, __file__, 1, message, args, extra.pop("exc_info", None))
    made.__dict__.update(extra)
    return made


def line(made: logging.LogRecord, worker_id: str | None = "w") -> dict[str, Any]:
    text = JsonLines(worker_id).format(made)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_line_about_nothing_has_all_keys() -> None:
    found = line(record("hello %s", "you"))
    assert set(found) >= KEYS
    assert (found["message"], found["level"], found["event"]) == ("hello you", "info", "log")
    assert (found["job_id"], found["worker_id"]) == (None, "w")
    assert found["ts"].endswith("Z")


def test_a_line_says_what_its_record_says() -> None:
    found = line(
        record("x", event="job.rescheduled", reason="snooze", job_id="j1", attempt=2, worker_id="me")
    )
    assert (found["event"], found["reason"], found["job_id"], found["attempt"], found["worker_id"]) == (
        "job.rescheduled", "snooze", "j1", 2, "me",
    )  # fmt: skip


def test_an_exception_is_folded_into_the_line() -> None:
    try:
        raise ValueError("at postgresql://u:s3cret@h/d")
    except ValueError:
        found = line(record("it broke", exc_info=sys.exc_info()))
    assert found["exception"].endswith("ValueError: at postgresql://u:***@h/d")
    assert "s3cret" not in json.dumps(found)


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_fields_that_json_cannot_say_are_said_in_words() -> None:
    fields = {"a": {1, 2}, "b": Unprintable(), "c": [b"x"], "d": "\ud800", "url": "postgres://u:s3cret@h"}
    found = line(record("x", fields=fields))["fields"]
    assert found["b"] == "<Unprintable that cannot be shown>"
    assert found["url"] == "postgres://u:***@h"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:s3cret@host/db",
        "postgresql+psycopg://user:s3cret@host/db",
        "postgres://user:s3c/s3cret@host/db",
        "postgresql://user:pass@s3cret@host/db",
        "postgres:/user:s3cret@host/db",
        "redis://user:s3cret@host/0 and more",
        "host=h password=s3cret user=u",
        "host=h password='my s3cret' user=u",
        'connect(password="s3cret")',
        '{"password": "s3cret"}',
        "PGPASSWORD=s3cret psql",
        r'said "{\"password\": \"s3cret\"}"',
    ],
)
def test_passwords_are_scrubbed(text: str) -> None:
    assert "s3cret" not in scrub(text)
    assert "***" in scrub(text)


@pytest.mark.parametrize(
    "text",
    [
        "GET http://host:8080/path?mail=a@b",
        'password authentication failed for user "shop"',
        "at 12:30 mail to a@b",
        "wrong password: try again",
        "pass: 3, fail: 1",
        "postgresql://host:5432/db",
    ],
)
def test_what_is_no_password_stays(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize(
    "part",
    [
        "x",
        "a.",
        "x://",
        "://:",
        "postgres://u:",
        "postgres+",
        "@",
        "a@",
        "password",
        "password=",
        "password='",
        " ",
        "\\",
    ],
)
@pytest.mark.parametrize("end", ["", " ", "@", "="])
def test_what_is_long_is_scrubbed_in_no_time(part: str, end: str) -> None:
    """An error text of 64 KiB without a space kept a worker's event loop for half a minute."""
    text = part * (200_000 // len(part)) + end
    began = process_time()
    scrub(text)
    assert process_time() - began < 1


def test_text_is_coloured_only_on_a_terminal() -> None:
    made = record("careful", level=logging.WARNING)
    assert "\x1b" not in TextLines().format(made)
    assert "\x1b[33m" in TextLines(coloured=True).format(made)


def test_text_says_what_the_message_does_not() -> None:
    text = TextLines().format(record("sent", job_id="j7", fields={"to": "ann"}))
    assert text.endswith("sent  (to=ann job=j7)")
    assert TextLines().format(record("job j7 sent", job_id="j7")).endswith("job j7 sent")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _root() -> Generator[None]:
    root, pool = logging.getLogger(), logging.getLogger("psycopg.pool")
    before = root.handlers, root.level, pool.level
    yield
    root.handlers, level, pool_level = before
    root.setLevel(level)
    pool.setLevel(pool_level)


@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_text_in_colour_unless_it_wants_none(
    no_colour: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    terminal = Terminal()
    logs.set_up(stream=terminal)
    logging.getLogger("shop").warning("careful")
    assert terminal.getvalue().endswith("careful\n")
    assert ("\x1b" in terminal.getvalue()) is coloured


@pytest.mark.usefixtures("_root")
def test_off_a_terminal_lines_are_json_at_the_level_asked_for() -> None:
    out = io.StringIO()
    logs.set_up(log_level="warning", stream=out)
    logging.getLogger("shop").info("not this")
    logging.getLogger("shop").warning("this")
    assert [json.loads(text)["message"] for text in out.getvalue().splitlines()] == ["this"]
