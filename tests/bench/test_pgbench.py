from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast.bench import pgbench
from holdfast.errors import BinariesNotFound, DatabaseUnavailable

LOG = """\
1 1 4000 0 1700000000 4000
0 2 1000 0 1700000000 3000
0 1 2000 0 1700000000 2000
1 2 4000 0 1700000000 8000
"""


def test_a_log_becomes_the_transactions_of_each_client_in_order() -> None:
    first, second = pgbench.parse_log(LOG.splitlines())
    assert [done.latency_ms for done in first] == [2.0, 1.0]
    assert [done.client for done in second] == [1, 1]


def test_columns_of_newer_versions_do_not_matter() -> None:
    ((done,),) = pgbench.parse_log(["0 1 1500 0 1700000000 2000 0 0"])
    assert done.latency_ms == 1.5


def test_the_rate_is_what_the_clients_did_together() -> None:
    # Two transactions in 3 ms by one client, two in 8 ms by the other.
    assert pgbench.per_second(pgbench.parse_log(LOG.splitlines())) == pytest.approx(
        2 / 0.003 + 2 / 0.008, rel=1e-4
    )


def test_without_pgbench_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_programs() -> None:
        raise BinariesNotFound("none")

    monkeypatch.setattr(pgbench, "find_binaries", no_programs)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinariesNotFound, match="needs pgbench") as caught:
        pgbench.find_pgbench()
    assert len(str(caught.value).splitlines()) == 1


def test_pgbench_on_the_path_is_found_where_the_server_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_programs() -> None:
        raise BinariesNotFound("none")

    monkeypatch.setattr(pgbench, "find_binaries", no_programs)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = _program(tmp_path / "pgbench", "true")
    assert pgbench.find_pgbench() == program


def test_a_password_is_never_on_the_command_line(tmp_path: Path) -> None:
    program = _program(tmp_path / "pgbench", f'echo "$@" "password: $PGPASSWORD" > {tmp_path}/seen')
    pgbench.run(program, "postgresql://anna:secret@nowhere/shop", "bare.pgbench.sql", transactions=1)
    arguments, password = (tmp_path / "seen").read_text().split("password: ")
    assert "secret" not in arguments
    assert "dbname=shop" in arguments
    assert password == "secret\n"


def test_options_come_after_those_of_the_address(tmp_path: Path) -> None:
    program = _program(tmp_path / "pgbench", f'echo "$@" > {tmp_path}/seen')
    pgbench.run(
        program,
        "dbname=shop options='-c role=anna'",
        "bare.pgbench.sql",
        transactions=1,
        options="-c synchronous_commit=off",
    )
    assert "options='-c role=anna -c synchronous_commit=off'" in (tmp_path / "seen").read_text()


def test_what_pgbench_complains_of_is_the_message(tmp_path: Path) -> None:
    program = _program(tmp_path / "pgbench", "echo 'pgbench: error: the sky fell' >&2; exit 1")
    with pytest.raises(DatabaseUnavailable, match=r"bare\.pgbench\.sql failed: pgbench: error: the sky fell"):
        pgbench.run(program, "dbname=shop", "bare.pgbench.sql", transactions=1)


def _program(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
