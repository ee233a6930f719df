"""The page about running workers says what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from holdfast.cli.worker import command
from holdfast.worker import program
from holdfast.worker.settings import ENVIRONMENT, Settings

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "run-workers.md").read_text()


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table]


def test_the_table_of_settings_is_that_of_the_code() -> None:
    shown = [tuple(row[:4]) for row in rows("Settings")]
    assert shown == [
        (
            each.name,
            f"--{each.name.replace('_', '-')}",
            ENVIRONMENT + each.name.upper(),
            "none" if each.default is None else f"{each.default:g}",
        )
        for each in fields(Settings)
    ]


def test_every_flag_and_its_variable_is_on_the_page() -> None:
    for option in command.params:
        flag = next((name for name in option.opts if name.startswith("--")), None)
        if flag is not None:
            assert f"`{flag}" in PAGE
            assert str(option.envvar) in PAGE


def test_the_exit_codes_are_those_of_the_program() -> None:
    codes = [program.DONE, program.FAILED, program.USAGE, program.UNREACHABLE]
    assert [int(row[0]) for row in rows("Stopping")] == codes


def test_every_event_on_the_page_is_one_that_is_logged() -> None:
    source = "".join(path.read_text() for path in (Path(program.__file__).parents[1]).rglob("*.py"))
    named = {event for row in rows("Logs") for event in re.findall(r"[a-z]+\.[a-z]+", row[0])}
    assert {event for event in named if f'"{event}"' not in source} == set()
