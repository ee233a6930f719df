"""Children: processes that run handlers, one job at a time each, and may die without harm to anything else.

On the worker's side `pool` hands out jobs, `starting` makes children, `process` is one of them as the worker
sees it, `spawning` how it begins and ends, `link` the worker's end of its pipe. On the child's side `child`
is the program, `target` finds the app, `channel` is the other end of the pipe, `stopping` ends a handler,
`context` is what a handler may say, `capture` makes text of an error. `frames` is the language of the pipe,
`values` what travels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.worker.children.pool import ChildPool, PoolClosed
    from holdfast.worker.children.values import ChildReply, ChildRequest, Died, Raised, Returned

__all__ = ["ChildPool", "ChildReply", "ChildRequest", "Died", "PoolClosed", "Raised", "Returned"]

_POOL = {"ChildPool", "PoolClosed"}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: a child starts faster without the worker's side."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "pool" if name in _POOL else "values"
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
