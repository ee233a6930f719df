"""Who waits for whom, without a database: finding the circle that would never finish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Name the first cycle met, closed (`["a", "b", "a"]`), or return None.

    `edges` leads from a job to those it waits for; a name without edges of its own waits for nobody.
    Looks in the order of the mapping, visits each edge once and needs no recursion.
    """
    finished: set[str] = set()
    for start in edges:
        if start not in finished:
            cycle = _follow(start, edges, finished)
            if cycle is not None:
                return cycle
    return None


def _follow(start: str, edges: Mapping[str, Sequence[str]], finished: set[str]) -> list[str] | None:
    """Walk everything that can be reached from `start`; names left for good go to `finished`."""
    path = [start]
    on_path = {start}
    ahead: list[Iterator[str]] = [iter(edges[start])]
    while path:
        name = next(ahead[-1], None)
        if name is None:
            ahead.pop()
            on_path.discard(path[-1])
            finished.add(path.pop())
        elif name in on_path:
            return [*path[path.index(name) :], name]
        elif name not in finished:
            path.append(name)
            on_path.add(name)
            ahead.append(iter(edges.get(name, ())))
    return None
