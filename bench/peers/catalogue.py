"""All contenders."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers import on_postgresql, on_redis
from bench.peers.peer import Peer

PEERS: tuple[Peer, ...] = on_postgresql.PEERS + on_redis.PEERS


def named(keys: Sequence[str]) -> list[Peer]:
    """The contenders of these names, in the order given."""
    known = {peer.key: peer for peer in PEERS}
    if unknown := [key for key in keys if key not in known]:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[key] for key in keys]
