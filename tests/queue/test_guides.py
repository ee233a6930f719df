"""The examples of the guides, run as they are pasted: in a process of their own, on any database.

A block that begins with the name of a file, as in `# shop.py`, is part of an application, no program.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.config import HOME_VARIABLE

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
PATIENCE_S = 60

SAYS = {
    ("write-your-own-worker.md", "With asyncio"): [
        "mail-ada is done",
        "mail-grace is done",
        "mail-nobody failed and will be tried again",
        "mail-nobody is dead",
    ],
    ("write-your-own-worker.md", "With threads"): [
        "letter-ada is done",
        "letter-barbara is done",
        "letter-grace is done",
    ],
}
"""What each example prints, in some order."""


@dataclass(frozen=True, slots=True)
class Example:
    """A block of Python in a guide, under the heading that stands above it."""

    guide: str
    heading: str
    code: str

    def paste(self, directory: Path) -> Path:
        file = directory / "pasted.py"
        file.write_text(self.code)
        return file


def examples() -> list[Example]:
    found: list[Example] = []
    for guide in sorted(GUIDES.glob("*.md")):
        heading = ""
        for part in re.finditer(
            r"^#+ (?P<heading>[^\n]*)$|^```python\n(?P<code>.*?)^```$", guide.read_text(), re.M | re.S
        ):
            if part["code"] is None:
                heading = part["heading"]
            elif not re.match(r"# \w+\.py\n", part["code"]):
                found.append(Example(guide.name, heading, part["code"]))
    return found


EXAMPLES = examples()


@pytest.fixture(params=EXAMPLES, ids=[example.heading for example in EXAMPLES])
def example(request: pytest.FixtureRequest) -> Example:
    found: Example = request.param
    return found


def test_every_example_has_an_output_that_is_checked() -> None:
    assert {(example.guide, example.heading) for example in EXAMPLES} == set(SAYS)
    assert len(EXAMPLES) == len(SAYS)


def test_an_example_runs_on_a_database_that_was_migrated(
    example: Example, blank_database: str, open_directory: Path
) -> None:
    environment = {"DATABASE_URL": blank_database}
    migrated = run(["-m", "holdfast", "migrate", "up"], open_directory, environment)
    assert migrated.returncode == 0, migrated.stderr
    require_what_it_says(example, run([example.paste(open_directory)], open_directory, environment))


def test_an_example_runs_on_the_embedded_database_and_leaves_no_server_running(
    example: Example, open_directory: Path
) -> None:
    home = open_directory / "home"
    ran = run([example.paste(open_directory)], open_directory, {HOME_VARIABLE: str(home)})
    require_what_it_says(example, ran)
    assert not list(home.rglob("postmaster.pid"))


def test_a_strict_type_checker_accepts_the_examples(tmp_path: Path) -> None:
    files = [tmp_path / f"example_{number}.py" for number in range(len(EXAMPLES))]
    for file, example in zip(files, EXAMPLES, strict=True):
        file.write_text(example.code)
    checked = run(
        [
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--follow-imports=silent",
            "--cache-dir",
            ROOT / ".mypy_cache" / "guides",
            *files,
        ],
        tmp_path,
        {"MYPYPATH": str(ROOT / "src")},
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def require_what_it_says(example: Example, ran: subprocess.CompletedProcess[str]) -> None:
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert sorted(ran.stdout.splitlines()) == SAYS[example.guide, example.heading]


def run(
    arguments: list[str | Path], directory: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """A process of its own that knows nothing of ours but where programs are."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(directory), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
