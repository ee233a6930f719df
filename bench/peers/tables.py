"""Results and settings as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.peers.peer import Peer
from bench.peers.results import Figures, Results

BEGIN = "<!-- peers: begin (written by `make peers ARGS=--write-docs`) -->"
END = "<!-- peers: end -->"

OURSELVES = "holdfast"

_COLUMNS = (
    "contender",
    "bulk enqueue/s",
    "single enqueue/s",
    "drain/s, 1 process",
    "drain/s, 2 processes",
    "idle latency p50 / p99 ms",
    "Holdfast ÷ it, drain 1 / 2",
    "jobs",
    "of a finished job",
)


def results_table(results: Results, peers: Sequence[Peer], versions: dict[str, str]) -> str:
    """What was measured, quickest drain first, with the ratio of Holdfast to each."""
    medians = results.medians()
    ours = medians.get(OURSELVES)
    parts = [_preamble(results)]
    for broker, title in (("postgresql", "On PostgreSQL"), ("redis", "On Redis, as context")):
        rows = [
            _row(peer, versions[peer.key], medians[peer.key], ours)
            for peer in sorted(peers, key=lambda peer: -_drain(medians.get(peer.key)))
            if peer.broker == broker and peer.key in medians
        ]
        if rows:
            parts.append(f"{title}:\n\n{_markdown(_COLUMNS, rows)}")
    if failures := [f"- {key}: {why}" for key, why in results.failures.items()]:
        parts.append("Not measured:\n\n" + "\n".join(failures))
    return "\n\n".join(parts)


def settings_table(peers: Iterable[Peer]) -> str:
    """Every setting of every contender, with the page that speaks of it."""
    rows = [
        (peer.title, f"`{setting.name}`", f"`{setting.value}`", setting.why, f"<{setting.source}>")
        for peer in peers
        for setting in peer.settings
    ]
    return _markdown(("contender", "setting", "value", "why", "source"), rows)


def promises_table(peers: Iterable[Peer]) -> str:
    """What a success is worth, and what stays: speed without these is another product."""
    rows = [(peer.title, peer.durability, peer.history) for peer in peers]
    return _markdown(("contender", "a success means", "of a finished job"), rows)


def put_between_markers(page: str, block: str) -> str:
    """The page with the block in the place of what was there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page lacks the lines\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def _preamble(results: Results) -> str:
    disk = "`fsync` and `synchronous_commit` on" if results.durable else "NOT durable"
    rounds = "one round" if results.rounds == 1 else f"medians of {results.rounds} rounds"
    return f"{results.date}, {results.machine}; PostgreSQL {results.server}, {disk}; {rounds}."


def _row(peer: Peer, version: str, its: Figures, ours: Figures | None) -> tuple[str, ...]:
    ratio = "–"
    if ours is not None and peer.key != OURSELVES:
        ratio = f"{ours.drain_1_per_s / its.drain_1_per_s:.2f} / {ours.drain_2_per_s / its.drain_2_per_s:.2f}"
    name = f"**{peer.title}**" if peer.key == OURSELVES else f"{peer.title} {version}"
    return (
        name,
        f"{its.bulk_per_s:,.0f}",
        f"{its.single_per_s:,.0f}",
        f"{its.drain_1_per_s:,.0f}",
        f"{its.drain_2_per_s:,.0f}",
        f"{its.latency_p50_ms:.1f} / {its.latency_p99_ms:.1f}",
        ratio,
        f"{its.jobs:,}",
        peer.history,
    )


def _drain(figures: Figures | None) -> float:
    return figures.drain_1_per_s if figures else 0.0


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
