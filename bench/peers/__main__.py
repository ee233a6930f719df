"""`make peers`: measure the contenders in turn, verify, write results, draw the table."""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bench.peers import servers, tables
from bench.peers.catalogue import PEERS, named
from bench.peers.environments import CACHE, HERE, REPOSITORY, Environment, environment, pinned
from bench.peers.measure import Bench, Failed, logs
from bench.peers.peer import Peer
from bench.peers.results import Results, read

RESULTS = CACHE / "results.json"
PAGE = REPOSITORY / "docs" / "benchmarks.md"


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    options = _options(arguments)
    # Ended like an interrupt, so that workers, databases and servers are not left behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if options.write_settings:
        (HERE / "SETTINGS.md").write_text(settings_page())
        return
    if options.render:
        results = read(options.results)
    else:
        results = _measure(_chosen(options), options)
        results.write(options.results)
    table = tables.results_table(results, PEERS, versions())
    print(table)
    if options.write_docs:
        PAGE.write_text(tables.put_between_markers(PAGE.read_text(), table))


def settings_page() -> str:
    """SETTINGS.md, drawn from the catalogue."""
    return (
        "# Settings of every contender\n\n"
        "Drawn from `on_postgresql.py` and `on_redis.py` by `python -m bench.peers --write-settings`. "
        "Versions are in `versions.toml`.\n\n"
        f"{tables.settings_table(PEERS)}\n\n## What the figures buy\n\n{tables.promises_table(PEERS)}\n"
    )


def versions() -> dict[str, str]:
    """The version of each contender's own package, which is the first one pinned."""
    first = {key: next(iter(kinds.values()))[0] for key, kinds in pinned().items()}
    return {key: package.replace("==", "@").rpartition("@")[2] for key, package in first.items()}


def _measure(peers: list[Peer], options: argparse.Namespace) -> Results:
    places = {peer.key: environment(peer, _say) for peer in peers}
    logs()
    with (
        servers.postgresql(options.dsn, _say) as server,
        servers.redis(_say) if any(peer.broker == "redis" for peer in peers) else nullcontext() as redis_url,
    ):
        with servers.connect(server) as conn:
            version, durable = servers.facts(conn)
        results = Results(time.strftime("%Y-%m-%d"), machine(), version, durable, options.rounds)
        for _ in range(options.rounds):
            for peer in peers:
                with _locked(options.lock):
                    _measure_one(
                        peer, places[peer.key], server, redis_url, options.jobs or peer.jobs, results
                    )
    return results


def _measure_one(
    peer: Peer, place: Environment, server: str, redis_url: str | None, jobs: int, results: Results
) -> None:
    try:
        if peer.broker == "redis":
            if redis_url is None:
                raise Failed("there is no redis-server here")
            servers.empty_redis(redis_url)
            figures = Bench(peer, place, "", redis_url, None, _say).run(jobs)
        else:
            with servers.fresh_database(server, peer.key) as dsn, servers.connect(dsn) as conn:
                figures = Bench(peer, place, dsn, "", conn, _say).run(jobs)
    except Failed as why:
        results.failures[peer.key] = str(why)
        _say(f"{peer.title}: FAILED: {why}")
    else:
        results.figures.setdefault(peer.key, []).append(figures)


def machine() -> str:
    """A few words on what it ran on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in _text(Path("/proc/cpuinfo")).splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model}), {memory_gb:.0f} GiB, {system}"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _chosen(options: argparse.Namespace) -> list[Peer]:
    if options.only:
        return named(options.only.split(","))
    return [peer for peer in PEERS if peer.broker == "postgresql" or options.context]


@contextmanager
def _locked(path: Path | None) -> Generator[None]:
    """Keep other measurements on the machine from running at the same time, if they agree on a file."""
    if path is None:
        yield
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make peers", description="Measure Holdfast beside others.")
    parser.add_argument("--only", metavar="NAMES", help=f"of {','.join(peer.key for peer in PEERS)}")
    parser.add_argument("--context", action="store_true", help="the contenders on Redis too")
    parser.add_argument("--jobs", type=int, metavar="N", help="jobs of each drain, whoever it is")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="so often, in turn; medians count")
    parser.add_argument("--dsn", metavar="URL", help="a PostgreSQL of your own; its role must be a superuser")
    parser.add_argument("--lock", type=Path, metavar="FILE", help="hold this lock while measuring")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the JSON goes")
    parser.add_argument("--render", action="store_true", help="measure nothing, show the results there are")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--write-settings", action="store_true", help="only draw SETTINGS.md anew")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
