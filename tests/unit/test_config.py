"""What settings come to."""

from __future__ import annotations

import shlex

import pytest

from holdfast import config


@pytest.mark.parametrize(
    ("schema", "environment", "command"),
    [
        ("holdfast", None, "holdfast migrate up"),
        ("x2", None, "holdfast migrate up --schema x2"),
        ("x2", "x2", "holdfast migrate up --schema x2"),
        ("holdfast", "x2", "holdfast migrate up --schema holdfast"),
    ],
)
def test_the_command_that_installs_a_schema_does_so_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, schema: str, environment: str | None, command: str
) -> None:
    monkeypatch.delenv(config.SCHEMA_VARIABLE, raising=False)
    if environment:
        monkeypatch.setenv(config.SCHEMA_VARIABLE, environment)

    assert config.migrate_command(schema) == command


def test_a_shell_takes_the_name_in_the_command_for_one_word() -> None:
    name = "it's; $(mine)"

    assert shlex.split(config.migrate_command(name)) == ["holdfast", "migrate", "up", "--schema", name]
