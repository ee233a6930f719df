"""A first app, for a folder that has none."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = "tasks.py"
TARGET: Final = "tasks:hf"

TEXT: Final = '''\
"""A first app: `holdfast dev` runs its jobs, and starts anew whenever this file is saved."""

from holdfast import Holdfast

hf = Holdfast()  # DATABASE_URL, or the private PostgreSQL of this folder


@hf.task
def greet(name: str) -> str:
    return f"hello {name}"


if __name__ == "__main__":  # python tasks.py, while `holdfast dev` runs
    print(greet.enqueue("ada").result(timeout=10))
'''


def write(folder: Path) -> Path:
    """Write it; never over a file that is there."""
    file = folder / NAME
    with file.open("x", encoding="utf-8") as opened:
        opened.write(TEXT)
    return file
