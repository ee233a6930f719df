"""docs/guides/http-api.md says what is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx

from holdfast.web.bodies import MOST_BYTES, READ_WITHIN_S
from holdfast.web.credentials import GUESSES
from holdfast.web.settings import REDACTED_NAMES, SECRET_LENGTH, Role
from tests.console.conftest import Shop

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "http-api.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8420"


def curl(web: httpx.Client, line: str) -> httpx.Response:
    """What curl does with these options."""
    words = shlex.split(line)
    assert words.pop(0) == "curl"
    method, headers, body, parameters, in_address = "GET", {}, None, {}, False
    address = ""
    while words:
        match words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            case "-d":
                method, body = method if method != "GET" else "POST", words.pop(0)
            case "-G":
                in_address = True
            case "--data-urlencode":
                name, _, value = words.pop(0).partition("=")
                parameters[name] = value
            case word:
                address = word.removeprefix(ADDRESS)
    assert in_address == bool(parameters)
    return web.request(method, address, headers=headers, content=body, params=parameters or None)


def test_every_line_of_the_session_works(web: httpx.Client, shop: Shop) -> None:
    shop.submit("waits", queue="mail")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert len(lines) > 12
    for line in lines:
        answer = curl(web, line)
        assert answer.status_code in (200, 201), f"{line}: {answer.text}"


def test_limits_and_names_are_those_of_the_code() -> None:
    assert f"at least {SECRET_LENGTH} characters" in PAGE
    assert GUESSES == 10
    assert "After ten wrong secrets within a minute" in PAGE
    assert f"longer than {READ_WITHIN_S:.0f} s, is larger than {MOST_BYTES // 1024**2} MB" in PAGE
    for role in Role:
        assert f"| `{role}` |" in PAGE
    for name in REDACTED_NAMES.split("|"):
        assert f"`{name}`" in PAGE


def test_every_metric_is_on_the_page(web: httpx.Client) -> None:
    names = re.findall(r"^# TYPE (\w+)", web.get("/metrics").text, re.MULTILINE)
    assert len(names) > 10
    assert [name for name in names if f"`{name}" not in PAGE and name != "holdfast_info"] == []
