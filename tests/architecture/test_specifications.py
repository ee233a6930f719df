"""The page that leads from every statement of the specifications to its code and its proof is true."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.architecture.named import ROOT, is_a_test, text_of

PAGE = ROOT / "docs" / "specifications.md"

ID = re.compile(r"M2-\d{3}|S\d{3}-\d{2,3}")
OPEN = ("to be filled", "–")


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    statement: str
    where: str
    test: str
    standing: str

    @property
    def code(self) -> list[str]:
        """The paths named, each with the name to look for in it: `path` or `path:name`."""
        return re.findall(r"`([^`]+)`", self.where)

    @property
    def tests(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.test)


def rows_of(page: str) -> list[Row]:
    lines = [
        line for line in page.splitlines() if line.startswith("|") and not line.startswith(("| id |", "|--"))
    ]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    broken = [line for line, parts in zip(lines, cells, strict=True) if len(parts) != 5]
    assert not broken, f"a row has five cells: {broken}"
    return [Row(*parts) for parts in cells]


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


def test_every_row_has_an_id_of_its_own() -> None:
    assert all(ID.fullmatch(row.id) for row in ROWS)
    assert [row_id for row_id, times in Counter(row.id for row in ROWS).items() if times > 1] == []


def test_every_task_of_the_second_milestone_is_there() -> None:
    assert {row.id for row in ROWS if row.id.startswith("M2-")} == {
        f"M2-{number:03}" for number in range(1, 28)
    }


@pytest.mark.parametrize("seed", ["S000", "S001", "S002", "S003", "S004"])
def test_the_statements_of_a_specification_are_numbered_without_a_gap(seed: str) -> None:
    numbers = [int(row.id.removeprefix(f"{seed}-")) for row in ROWS if row.id.startswith(f"{seed}-")]

    assert numbers == list(range(1, len(numbers) + 1))


def test_the_standing_is_one_of_two_words() -> None:
    assert {row.standing for row in ROWS} <= {"done", "not yet"}


def test_a_row_says_something_in_every_cell() -> None:
    assert [row.id for row in ROWS if not row.statement] == []
    assert [row.id for row in ROWS if not row.code and row.where != "–"] == []
    assert [row.id for row in ROWS if not row.tests and row.test not in OPEN] == []


def test_the_code_the_rows_name_exists() -> None:
    assert [f"{row.id}: {named}" for row in ROWS for named in row.code if not code_exists(named)] == []


def test_the_tests_the_rows_name_exist() -> None:
    assert [f"{row.id}: {named}" for row in ROWS for named in row.tests if not is_a_test(named)] == []


def test_a_row_that_is_done_names_its_code_and_its_proof() -> None:
    done = [row for row in ROWS if row.standing == "done"]

    assert [row.id for row in done if not row.code or not row.tests or "to be filled" in row.test] == []


def code_exists(named: str) -> bool:
    path, _, name = named.partition(":")
    file = ROOT / "src" / "holdfast" / path
    return file.is_file() and name in text_of(file)
