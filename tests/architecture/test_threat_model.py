"""The page of threats names code and tests that exist, and says what is left to the operator."""

from __future__ import annotations

import re

import pytest

from tests.architecture.named import ROOT, dead_links, is_a_test

TEXT = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| to ")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_what_stands_in_the_way_is_there_and_tested(row: list[str]) -> None:
    _try, _way, where, tests = row
    assert re.fullmatch(r"`src/[^`]+`", where)
    assert (ROOT / where.strip("`")).is_file()
    named = re.findall(r"`([^`]+)`", tests)
    assert named
    assert [test for test in named if not is_a_test(test)] == []


@pytest.mark.parametrize(
    "section",
    [
        "A producer",
        "A worker",
        "A browser on another site",
        "Somebody on the network",
        "A curious viewer",
        "Another user of the machine",
    ],
)
def test_everybody_who_may_be_hostile_has_a_table(section: str) -> None:
    assert "\n| to " in TEXT.partition(f"\n## {section}\n")[2].partition("\n## ")[0]


def test_what_is_left_to_the_operator_is_said() -> None:
    assert TEXT.partition("\n## What is left to you\n")[2].count("\n- **") >= 5


@pytest.mark.parametrize("page", ["docs/threat-model.md", "SECURITY.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    assert dead_links(page) == []
