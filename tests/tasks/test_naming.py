"""Tasks are called what a worker, which imports their module, calls them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgument
from holdfast.tasks.naming import task_name

SCRIPT = """
from holdfast import Holdfast
hf = Holdfast()

@hf.task
def send(to: str) -> None: ...

class Mails:
    @hf.task
    def flush() -> None: ...

if __name__ == "__main__":
    print(send.name, Mails.flush.name)
"""


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "shop" / "mails"
    package.mkdir(parents=True)
    for directory in (package, package.parent):
        (directory / "__init__.py").touch()
    (tmp_path / "tools").mkdir()
    places = (
        tmp_path / "script.py",
        package / "tasks.py",
        package / "__main__.py",
        tmp_path / "tools/jobs.py",
    )
    for file in places:
        file.write_text(SCRIPT)
    return tmp_path


def test_a_task_of_a_module_is_called_by_module_and_name() -> None:
    assert task_name(run) == f"{__name__}.run"
    assert task_name(Path.exists) == "pathlib.Path.exists"


def test_a_script_names_its_tasks_as_its_importer_would(project: Path) -> None:
    imported = run("-c", "import script; print(script.send.name)", cwd=project)
    assert run("script.py", cwd=project) == f"{imported} script.Mails.flush"
    assert imported == "script.send"


def test_a_script_named_by_a_path_is_the_same_script(project: Path) -> None:
    assert run(str(project / "script.py"), cwd=Path("/")).split()[0] == "script.send"


def test_a_file_of_a_package_is_imported_by_way_of_the_package(project: Path) -> None:
    assert run("shop/mails/tasks.py", cwd=project).split()[0] == "shop.mails.tasks.send"


def test_a_module_run_with_m_keeps_its_name(project: Path) -> None:
    assert run("-m", "shop.mails.tasks", cwd=project).split()[0] == "shop.mails.tasks.send"
    assert run("-m", "shop.mails", cwd=project).split()[0] == "shop.mails.__main__.send"
    assert run("-m", "tools.jobs", cwd=project).split()[0] == "tools.jobs.send", (
        "no __init__.py, still a package"
    )


def test_at_a_prompt_there_is_nothing_to_import(project: Path) -> None:
    assert run("-c", SCRIPT, cwd=project).split()[0] == "__main__.send"


def test_a_cell_of_a_notebook_may_be_run_again(project: Path) -> None:
    redefined = SCRIPT + "\nexec(compile('@hf.task\\ndef send(to, subject): ...', 'cell 2', 'exec'))\n"
    assert run("-c", redefined + "print(len(hf.registry))", cwd=project).split()[-1] == "2"


def test_a_lambda_has_no_name() -> None:
    with pytest.raises(InvalidArgument, match="lambda"):
        task_name(lambda: None)
