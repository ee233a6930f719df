"""Importing the app a worker is for: a module that starts a worker at import would do so for ever."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from holdfast.errors import HoldfastError

_loading: list[str] = []


@contextmanager
def loading(module: str) -> Generator[None]:
    """While a worker, or a child of one, imports this module, it must not start a worker itself."""
    _loading.append(module)
    try:
        yield
    finally:
        _loading.remove(module)


def refuse_while_loading() -> None:
    """Raise if a worker is being started by a module that a worker imports."""
    if _loading:
        raise HoldfastError(
            f'module "{_loading[-1]}" starts a worker while a worker imports it: '
            'put run_worker() under if __name__ == "__main__"'
        )
