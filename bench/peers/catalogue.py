"""The contenders, with the best settings their documentation knows for many small jobs."""

from __future__ import annotations

from collections.abc import Iterable

from bench.peers.peer import Peer, Setting

_HOLDFAST = Peer(
    key="holdfast",
    title="Holdfast",
    adapter="holdfast_adapter.py",
    broker="postgresql",
    settings=(
        Setting("concurrency", 500, "docs/guides/run-workers.md", "jobs at a time in each process"),
        Setting("bulk_batch", 10_000, "docs/guides/tasks.md", "calls of one enqueue_many"),
    ),
    jobs=100_000,
    singles=2_000,
    durability="committed",
    history="kept in the archive",
    unfinished="select count(*) from holdfast.jobs",
    supervises=True,
)

PEERS: tuple[Peer, ...] = (_HOLDFAST,)


def named(keys: Iterable[str]) -> list[Peer]:
    """The contenders of these names, in the order given."""
    known = {peer.key: peer for peer in PEERS}
    if unknown := [key for key in keys if key not in known]:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[key] for key in keys]
