"""The page of promises is true: each has its limits and its proof, and what it names exists."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from gauntlet.checker import INVARIANTS
from tests.architecture.named import ROOT, dead_links, is_a_test

TEXT = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
PROMISES, _, REFUSALS = TEXT.partition("\n## What is not promised\n")
NONE = "–"


@dataclass(frozen=True, slots=True)
class Promise:
    title: str
    sentence: str
    limits: str
    tests: tuple[str, ...]
    invariants: tuple[str, ...]


def promises() -> list[Promise]:
    sections = re.split(r"^### ", PROMISES, flags=re.MULTILINE)[1:]
    return [read(section.partition("\n## ")[0]) for section in sections]


def read(section: str) -> Promise:
    title, sentence, limits, tests, watched = (
        " ".join(part.split()) for part in section.strip().split("\n\n")
    )
    assert limits.startswith("Limits: "), title
    assert tests.startswith("Tests: "), title
    assert watched.startswith("Gauntlet: "), title
    said = watched.removeprefix("Gauntlet: ")
    return Promise(
        title,
        sentence,
        limits.removeprefix("Limits: "),
        tuple(re.findall(r"`([^`]+)`", tests)),
        () if said == NONE else tuple(said.split(" · ")),
    )


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: promise.title)
def test_a_promise_is_one_sentence_with_limits_and_proof(promise: Promise) -> None:
    assert re.fullmatch(r"[A-Z].*\.", promise.sentence)
    assert not re.search(r"[.!?] [A-Z]", promise.sentence)
    assert promise.limits
    assert promise.tests


def test_every_test_that_is_named_exists() -> None:
    named = [(promise.title, test) for promise in promises() for test in promise.tests]
    assert len(named) > 50
    assert [pair for pair in named if not is_a_test(pair[1])] == []


def test_every_invariant_of_the_gauntlet_proves_a_promise_and_no_other_is_named() -> None:
    assert {name for promise in promises() for name in promise.invariants} == set(INVARIANTS)


def test_what_is_not_promised_is_said() -> None:
    refused = re.findall(r"^- \*\*(.+?)\*\*", REFUSALS, re.MULTILINE)
    for word in ("exactly once", "Order", "Power loss", "failover", "clock"):
        assert any(word in each for each in refused), word


def test_every_link_of_the_page_leads_somewhere() -> None:
    assert dead_links("docs/guarantees.md") == []
