"""Doing the work. Read engine (a worker from start to stop), crew (at work), execution (one job), endings
(what is written down), stopping (how it ends), then child_lane and children (handlers in processes of their
own). A worker as a program: program (one process and its signals), supervisor (several), logs, notify."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.worker.engine import Worker
    from holdfast.worker.settings import Settings

__all__ = ["Settings", "Worker"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # At first use: the parent of several worker processes needs the supervisor and no driver.
        from importlib import import_module

        homes = {"Settings": "holdfast.worker.settings", "Worker": "holdfast.worker.engine"}
        if name not in homes:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(homes[name]), name)
        return value
