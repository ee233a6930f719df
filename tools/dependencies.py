"""Lock the dependencies with hashes (`make lock`), and ask what is known against them (`make audit`).

Both use a tool from PyPI in an environment that is thrown away. An audit in which nobody could be asked, or
not about every version, is not a pass: it ends with UNKNOWN.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements.lock"

CLEAN, VULNERABLE, UNKNOWN = 0, 1, 69

SERVICES: Final = ("pypi", "osv")
"""Who is asked about advisories, in this order, until one has answered for everything."""

PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service said: which pins it knows, and what is known against them."""

    known: frozenset[Pin]
    advisories: tuple[str, ...]


def pins(lock: str) -> list[Pin]:
    """Every version of the lock, whatever platform and Python it is for."""
    return [Pin(normal(name), version) for name, version in PIN.findall(lock)]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def rounds(wanted: Iterable[Pin]) -> list[list[Pin]]:
    """Lists in which no package is twice: one file cannot ask about two versions of it."""
    lists: list[list[Pin]] = []
    for pin in wanted:
        free = next((each for each in lists if pin.name not in {other.name for other in each}), None)
        if free is None:
            lists.append([pin])
        else:
            free.append(pin)
    return lists


def understood(told: str) -> Answer:
    """What pip-audit printed as JSON. What it passed over, it does not know."""
    try:
        listed: list[dict[str, Any]] = json.loads(told)["dependencies"]
    except (ValueError, KeyError):
        return Answer(frozenset(), ())
    known = [each for each in listed if "skip_reason" not in each]
    return Answer(
        frozenset(Pin(normal(each["name"]), each["version"]) for each in known),
        tuple(
            f"{each['name']} {each['version']}: {one['id']}, "
            f"mended in {', '.join(one['fix_versions']) or 'none'}"
            for each in known
            for one in each["vulns"]
        ),
    )


def verdict(wanted: Sequence[Pin], answer: Answer) -> int:
    """Whatever is known counts, and only who knows all may say that all is well."""
    if answer.advisories:
        return VULNERABLE
    return CLEAN if wanted and set(wanted) <= answer.known else UNKNOWN


@contextmanager
def thrown_away(tool: str) -> Iterator[Path]:
    """The directory of programs of an environment that has this tool, as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as place:
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        programs = Path(place) / "bin"
        quiet = ("--quiet", "--disable-pip-version-check")
        subprocess.run([programs / "python", "-m", "pip", "install", *quiet, tool], check=True)
        yield programs


def lock() -> int:
    with thrown_away("uv") as programs:
        options = "--universal --generate-hashes --upgrade --quiet --no-header --group dev"
        command = [str(programs / "uv"), "pip", "compile", *options.split(), "pyproject.toml"]
        made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    heading = (
        "# What Holdfast needs, to run and to be worked on, with hashes; for every platform and Python it\n"
        "# supports. Written by `make lock`. pip install --require-hashes -r requirements.lock\n"
    )
    LOCK.write_text(heading + made, encoding="utf-8")
    print(f"{LOCK.name}: {len(pins(made))} versions")
    return CLEAN


def ask(audit: Path, service: str, wanted: Sequence[Pin]) -> Answer:
    answers: list[Answer] = []
    for listed in rounds(wanted):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.writelines(f"{pin.name}=={pin.version}\n" for pin in listed)
            file.flush()
            options = ("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json")
            command = [str(audit), *options, "--vulnerability-service", service, "--requirement", file.name]
            run = subprocess.run(command, capture_output=True, text=True)
        answers.append(understood(run.stdout))
        if not answers[-1].known:
            print(*run.stderr.strip().splitlines()[-1:], file=sys.stderr)
    known = frozenset[Pin]().union(*(answer.known for answer in answers))
    return Answer(known, tuple(line for answer in answers for line in answer.advisories))


def audit() -> int:
    wanted = pins(LOCK.read_text(encoding="utf-8"))
    found = UNKNOWN
    with thrown_away("pip-audit") as programs:
        for service in SERVICES:
            answer = ask(programs / "pip-audit", service, wanted)
            found = verdict(wanted, answer)
            print(f"{service}: knows {len(set(wanted) & answer.known)} of {len(wanted)} versions")
            print(*answer.advisories, sep=os.linesep, end=os.linesep if answer.advisories else "")
            if found != UNKNOWN:
                break
    if found == UNKNOWN:
        print("NOT AUDITED: nobody could be asked about all of them", file=sys.stderr)
    return found


if __name__ == "__main__":
    commands = {"lock": lock, "audit": audit}
    if sys.argv[1:] not in [[name] for name in commands]:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(commands)}")
    sys.exit(commands[sys.argv[1]]())
