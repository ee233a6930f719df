"""What handlers wrote down: files of lines of one width, so that their size says how many there are."""

from __future__ import annotations

from pathlib import Path

NUMBER_DIGITS = 9
STAMP_DIGITS = 19
PLAIN_WIDTH = NUMBER_DIGITS + 1
STAMPED_WIDTH = NUMBER_DIGITS + 1 + STAMP_DIGITS + 1


class Seen:
    """The directory in which every worker process has one file: a job's number a line, or number and time."""

    def __init__(self, directory: Path, *, stamped: bool = False) -> None:
        self.directory = directory
        self._width = STAMPED_WIDTH if stamped else PLAIN_WIDTH
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.iterdir():
            old.unlink()

    def processes(self) -> int:
        """How many processes have begun a job."""
        return sum(1 for size in self._sizes() if size)

    def count(self) -> int:
        """How many runs were written down so far."""
        return sum(self._sizes()) // self._width

    def numbers(self) -> list[int]:
        """The number of each run's job."""
        return [int(line.split()[0]) for line in self._lines()]

    def stamps(self) -> dict[int, int]:
        """When each job began, in nanoseconds of the machine's monotonic clock."""
        return {int(number): int(stamp) for number, stamp in (line.split() for line in self._lines())}

    def _sizes(self) -> list[int]:
        return [path.stat().st_size for path in self.directory.iterdir()]

    def _lines(self) -> list[str]:
        return [line for path in self.directory.iterdir() for line in path.read_text().splitlines()]
