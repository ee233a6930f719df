"""Exactly once is judged, not assumed."""

from pathlib import Path

import pytest

from bench.peers.seen import Seen
from bench.peers.verify import Verdict, judge


def test_each_job_once_in_any_order_is_exactly_once() -> None:
    assert judge(range(5, 8), [7, 5, 6]).exactly_once


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ([5, 6], Verdict(missing=1, repeated=0, strange=0)),
        ([5, 6, 7, 6, 6], Verdict(missing=0, repeated=2, strange=0)),
        ([5, 6, 7, 8], Verdict(missing=0, repeated=0, strange=1)),
        ([5, 6, 6], Verdict(missing=1, repeated=1, strange=0)),  # as many runs as jobs
    ],
)
def test_a_job_lost_repeated_or_never_enqueued_is_found(seen: list[int], verdict: Verdict) -> None:
    assert judge(range(5, 8), seen) == verdict
    assert not verdict.exactly_once


def test_what_processes_wrote_is_counted_by_size_and_read_by_line(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    (tmp_path / "1.seen").write_text("000000005\n000000007\n")
    (tmp_path / "2.seen").write_text("000000006\n")
    (tmp_path / "3.seen").touch()  # a process without a job
    assert (seen.processes(), seen.count(), sorted(seen.numbers())) == (2, 3, [5, 6, 7])


def test_stamped_lines_tell_when_each_job_began(tmp_path: Path) -> None:
    seen = Seen(tmp_path, stamped=True)
    (tmp_path / "1.seen").write_text("000000005 0000000000000000042\n")
    assert (seen.count(), seen.stamps()) == (1, {5: 42})


def test_a_run_does_not_see_the_files_of_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "1.seen").write_text("000000005\n")
    assert Seen(tmp_path).count() == 0
