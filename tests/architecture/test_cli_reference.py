"""The page about the command line is complete and current. `make schema` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

import click

from holdfast.cli import COMMANDS, exits, main, reference
from holdfast.domain.search import Field, Measure, parse

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_committed_page_is_current() -> None:
    assert reference.render() == PAGE, "run: make schema"


def test_every_command_is_on_the_page() -> None:
    headings = set(re.findall(r"^### holdfast (\w+)$", PAGE, re.MULTILINE))
    assert headings == set(COMMANDS)


def test_every_exit_code_of_the_code_is_on_the_page_and_no_other() -> None:
    table = PAGE.partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == list(exits.MEANING)
    constants = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert constants == set(exits.MEANING)


def test_every_field_of_a_query_is_on_the_page() -> None:
    assert set(reference.FIELDS) == {*Field, *Measure, "args.NAME"}


def test_the_query_on_the_page_can_be_read() -> None:
    (shown,) = re.findall(r"^```\n(state:.*)\n```", PAGE, re.MULTILINE)
    assert str(parse(shown)) == shown


def test_every_list_has_json_watch_and_limit_and_what_destroys_can_be_tried() -> None:
    def options(*path: str) -> set[str]:
        command: click.Command | None = main
        for name in path:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), name)
        assert command is not None
        return {option for parameter in command.params for option in parameter.opts}

    lists = [("jobs", "list"), ("dead", "list"), ("queues", "list"), ("workers",), ("resources",), ("trace",)]
    for each in lists:
        assert options(*each) >= {"--json", "--watch", "--limit"}, each
    for verb in [("jobs", "retry"), ("jobs", "cancel"), ("jobs", "delete"), ("dead", "retry")]:
        assert options(*verb) >= {"--dry-run", "--yes", "--query", "--limit"}, verb


def test_the_readme_names_every_command() -> None:
    section = README.partition("## The command line")[2].partition("\n## ")[0]
    firsts = [re.split(r"(?<!\\)\|", line)[1] for line in section.splitlines() if line.startswith("|")]
    assert set(re.findall(r"`holdfast (\w+)", " ".join(firsts))) == set(COMMANDS)
