"""File locks that the kernel lets go of when their holder dies, however it dies.

A lock belongs to an *opening* of a file: a forked child shares it with its parent, two openings in one
process exclude each other.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_private: set[int] = set()
"""Descriptors a forked child must not keep: it would go on holding a lock it knows nothing of."""


def _close_private() -> None:
    for descriptor in _private:
        with suppress(OSError):
            os.close(descriptor)
    _private.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_private)


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Generator[int]:
    """Hold the lock alone; `on_wait` is called if somebody else has it and we must wait."""
    while True:
        with _private_file(path) as descriptor:
            if not _try(descriptor, fcntl.LOCK_EX):
                on_wait()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_at(descriptor, path):
                continue  # removed with its directory while we waited: nobody else will ever see this one
            try:
                yield descriptor
            finally:
                # In so many words: closing is not enough while a program we started has the same opening.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            return


@contextmanager
def try_exclusive(path: Path) -> Generator[int | None]:
    """Hold the lock alone if it is free, else give None. A program that inherits it goes on holding it."""
    with _private_file(path) as descriptor:
        yield descriptor if _try(descriptor, fcntl.LOCK_EX) else None


def share(path: Path) -> int:
    """Hold the lock together with others until the descriptor is closed, here and in forked children."""
    descriptor = _open(path)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def is_exclusive(path: Path) -> bool:
    """True if somebody holds the lock alone. Those who only look do not see each other."""
    if not path.exists():
        return False
    with _private_file(path) as descriptor:
        return not _try(descriptor, fcntl.LOCK_SH)


def is_shared(path: Path) -> bool:
    """True if somebody shares the lock."""
    if not path.exists():
        return False
    with _private_file(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits out the watchdog, which holds it alone for an instant
        return not _try(descriptor, fcntl.LOCK_EX)


def sharers(path: Path) -> tuple[int, ...]:
    """The processes that share the lock, where the system tells (Linux); a forked child is not seen."""
    try:
        inode, table = path.stat().st_ino, Path("/proc/locks").read_text()
    except OSError:
        return ()
    return tuple(
        sorted({int(pid) for pid in re.findall(rf"FLOCK +ADVISORY +READ +(\d+) +\S+:{inode} ", table)})
    )


@contextmanager
def _private_file(path: Path) -> Generator[int]:
    descriptor = _open(path)
    _private.add(descriptor)
    try:
        yield descriptor
    finally:
        _private.discard(descriptor)
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
