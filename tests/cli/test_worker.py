"""`holdfast worker`: its flags, and what it says to those who hold it wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from holdfast.app import Holdfast
from holdfast.cli import main
from holdfast.cli.target import load_app
from holdfast.cli.worker import HELP
from holdfast.worker.settings import Settings

APP = "from holdfast import Holdfast\nhf = Holdfast()\n"


def holdfast(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[None]:
    """An empty directory to stand in, and modules of one test unknown to the next."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refused(target: str) -> str:
    with pytest.raises(click.UsageError) as caught:
        load_app(target)
    assert caught.value.exit_code == 2
    return caught.value.message


# The app


def test_an_app_is_found_in_a_module_of_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "tasks.py").write_text(APP)
    app = load_app("pkg.tasks:hf")
    assert isinstance(app, Holdfast)
    assert load_app("pkg.tasks") is app


def test_a_module_that_is_not_there_is_named_with_the_place_it_was_looked_for(tmp_path: Path) -> None:
    said = refused("nowhere:hf")
    assert 'no module "nowhere"' in said
    assert str(tmp_path) in said
    assert "package.module:hf" in said


def test_of_a_package_that_is_not_there_the_missing_part_is_named(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    assert '"pkg.tasks"' in refused("pkg.tasks:hf")
    assert '"nowhere", and so no "nowhere.tasks"' in refused("nowhere.tasks:hf")


@pytest.mark.parametrize(
    ("target", "right"),
    [("shop.py:hf", "shop:hf"), ("pkg/tasks.py", "pkg.tasks:hf"), ("./shop.py:hf", "shop:hf")],
)
def test_a_file_is_not_a_module(target: str, right: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    assert refused(target).endswith(f" {right}")


@pytest.mark.parametrize("target", [":hf", "shop:", ":"])
def test_half_a_target_is_none(target: str) -> None:
    assert "names no app: write package.module:hf" in refused(target)


def test_a_name_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    assert refused("shop:app") == 'module "shop" has no "app"; it has shop:hf'


def test_something_else_is_said_to_be_no_app(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def hf(): ...\n")
    said = refused("shop:hf")
    assert "is not a Holdfast app but of type function" in said
    assert "hf = Holdfast()" in said


def test_a_module_without_an_app_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("x = 1\n")
    assert "make one with hf = Holdfast()" in refused("shop")


def test_of_several_apps_one_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f"{APP}same = hf\nother = Holdfast(schema='other')\n")
    assert "name one of shop:hf, shop:same, shop:other" in refused("shop")
    (tmp_path / "one.py").write_text(f"{APP}same = hf\n")
    assert isinstance(load_app("one"), Holdfast)


def test_a_module_that_raises_shows_its_own_frames_only(tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text("def fall(): return 1 / 0\n")
    (tmp_path / "shop.py").write_text("import deep\ndeep.fall()\n")
    said = refused("shop:hf")
    assert said.startswith('module "shop" cannot be imported:\n')
    assert said.endswith("ZeroDivisionError: division by zero")
    assert re.findall(r'File ".*/(.*)", line', said) == ["shop.py", "deep.py"]


def test_a_module_that_needs_another_shows_which(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import pandas_of_tomorrow\n")
    said = refused("shop:hf")
    assert "cannot be imported" in said
    assert said.endswith("No module named 'pandas_of_tomorrow'")


def test_a_module_with_a_typing_mistake_shows_where(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("hf = Holdfast(\n")
    assert "shop.py" in refused("shop:hf")
    assert "SyntaxError" in refused("shop:hf")


def test_a_module_that_exits_is_not_an_exit_of_ours(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise SystemExit(0)\n")
    assert "SystemExit" in refused("shop:hf")


# The flags


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mail=", "write --queue mail=10"),
        ("mail=x", '"x" is no number of jobs'),
        ("mail=0", '"0" is no number of jobs'),
        ("mail=-1", '"-1" is no number of jobs'),
        ("=3", "write --queue default=10"),
        ("", "write --queue default=10"),
    ],
)
def test_a_queue_without_its_number_is_wrong_usage(given: str, said: str) -> None:
    result = holdfast("worker", "shop:hf", "--queue", given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lease", "0.5"], "lease must be at least 1 second"),
        (["--lease", "soon"], "'soon' is not a valid float"),
        (["--poll-idle", "0"], "poll_idle must be more than 0"),
        (["--child-max-rss", "much"], "a size such as 512MB"),
        (["--child-max-jobs", "0"], "child_max_jobs must be 1 to"),
        (["--processes", "0"], "--processes"),
        (["--schema", "No Schema"], "schema name 'No Schema'"),
        (["--queue", "a=1", "--queue", "a=2"], 'queue "a" is named twice'),
        (["--log-level", "loud"], "'loud' is not one of"),
        ([], "Missing argument 'MODULE:APP'"),
    ],
)
def test_wrong_values_are_wrong_usage(arguments: list[str], said: str) -> None:
    target = ["shop:hf"] if arguments else []
    result = holdfast("worker", *target, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


def test_a_wrong_value_in_the_environment_names_the_variable() -> None:
    result = holdfast("worker", "shop:hf", HOLDFAST_LEASE="soon")
    assert result.exit_code == 2
    assert "HOLDFAST_LEASE" in result.stderr


def test_every_setting_is_a_flag_with_its_variable_and_default() -> None:
    shown = " ".join(holdfast("worker", "--help").stdout.split())
    assert set(HELP) == {each.name for each in fields(Settings)}
    for each in fields(Settings):
        default = "none" if each.default is None else f"{each.default:g}"
        flag = f"--{each.name.replace('_', '-')} "
        start = shown.index(flag)
        text = shown[start : shown.index("]", start)]
        assert f"[env var: HOLDFAST_{each.name.upper()}; default: ({default})" in text


def test_wrong_usage_as_a_program_is_one_answer_and_code_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "worker", "nowhere:hf"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (2, "")
    assert "Traceback" not in run.stderr
    assert 'no module "nowhere"' in run.stderr
