"""Which sources were saved. A look at a few hundred files takes milliseconds, so it needs no other means."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SUFFIXES: Final = (".py", ".toml", ".env")
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})
MOST_FILES: Final = 20_000
"""Whoever starts it in a home folder is not to wait for ever."""


class Sources:
    """The sources below a folder, as they were when somebody looked last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._look()

    def changed(self) -> list[Path]:
        """Files that were saved, made or removed since the last look, by their paths from the folder."""
        now, before = self._look(), self._seen
        self._seen = now
        return sorted(
            path.relative_to(self._folder)
            for path in now.keys() | before.keys()
            if now.get(path) != before.get(path)
        )

    def _look(self) -> dict[Path, tuple[int, int]]:
        found: dict[Path, tuple[int, int]] = {}
        for path in self._paths():
            try:
                stat = path.stat()
            except OSError:  # gone between two looks: the next one will say so
                continue
            found[path] = (stat.st_mtime_ns, stat.st_size)
            if len(found) >= MOST_FILES:
                break
        return found

    def _paths(self) -> Iterator[Path]:
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [each for each in folders if each not in _LEFT_OUT and not each.startswith(".")]
            yield from (Path(folder, each) for each in files if each.endswith(SUFFIXES))
