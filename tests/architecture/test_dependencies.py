"""Every dependency is locked with hashes, and an audit that asked nobody is no audit."""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from typing import Any

import pytest
from packaging.requirements import Requirement

from tools.dependencies import (
    CLEAN,
    LOCK,
    ROOT,
    UNKNOWN,
    VULNERABLE,
    Pin,
    normal,
    pins,
    rounds,
    understood,
    verdict,
)

TEXT = LOCK.read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DECLARED = [
    *PROJECT["project"]["dependencies"],
    *PROJECT["dependency-groups"]["dev"],
    *PROJECT["build-system"]["requires"],
]


@pytest.mark.parametrize("declared", DECLARED)
def test_what_is_declared_is_locked_at_versions_that_fit(declared: str) -> None:
    locked = defaultdict[str, set[str]](set)
    for pin in pins(TEXT):
        locked[pin.name].add(pin.version)
    wanted = Requirement(declared)

    assert locked[normal(wanted.name)], "run: make lock"
    assert all(wanted.specifier.contains(version) for version in locked[normal(wanted.name)])


def test_the_extras_of_the_driver_are_locked() -> None:
    assert {"psycopg-binary", "psycopg-pool"} <= {pin.name for pin in pins(TEXT)}


def test_every_version_has_hashes() -> None:
    entries = re.split(r"^(?=[a-z])", TEXT, flags=re.MULTILINE)[1:]

    assert len(entries) == len(pins(TEXT)) > len(DECLARED)
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_every_package_of_the_dashboard_is_locked_with_a_hash() -> None:
    page = ROOT / "src" / "holdfast" / "web" / "ui"
    locked = json.loads((page / "package-lock.json").read_text())["packages"]
    named = json.loads((page / "package.json").read_text())
    wanted = {*named.get("dependencies", {}), *named.get("devDependencies", {})}

    assert {f"node_modules/{name}" for name in wanted} <= set(locked)
    assert [path for path, entry in locked.items() if path and "integrity" not in entry] == []


# The audit

A, B, OLD_B = Pin("a", "1"), Pin("b", "2"), Pin("b", "1")


def told(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_all_versions_are_asked_about_whatever_platform_they_are_for() -> None:
    lock = "a==1 ; sys_platform == 'win32' \\\n    --hash=sha256:00\nB==2 \\\n    # via a==9\n"
    assert pins(lock) == [A, B]


def test_two_versions_of_one_package_are_asked_about_apart() -> None:
    assert rounds([A, B, OLD_B]) == [[A, B], [OLD_B]]


def test_only_who_knows_every_version_may_say_that_all_is_well() -> None:
    whole = told({"name": "A", "version": "1", "vulns": []}, {"name": "b", "version": "2", "vulns": []})
    half = told({"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"})

    assert verdict([A, B], understood(whole)) == CLEAN
    assert verdict([A, B], understood(half)) == UNKNOWN
    assert verdict([A, B, OLD_B], understood(whole)) == UNKNOWN


@pytest.mark.parametrize("silence", ["", "could not connect", "{}", told()])
def test_an_audit_in_which_nobody_answered_is_no_pass(silence: str) -> None:
    assert verdict([A], understood(silence)) == UNKNOWN
    assert verdict([], understood(silence)) == UNKNOWN


def test_what_is_known_is_told_with_its_remedy_though_the_rest_is_not() -> None:
    answer = understood(
        told(
            {"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["1.1"]}]},
            {"name": "b", "skip_reason": "not found"},
        )
    )
    assert answer.advisories == ("a 1: CVE-1, mended in 1.1",)
    assert verdict([A, B], answer) == VULNERABLE
