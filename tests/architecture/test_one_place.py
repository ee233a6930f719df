"""Some things happen in one place of the SQL only, so that a new caller cannot forget them."""

from __future__ import annotations

import re

import pytest

from holdfast.engine.source import shipped


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        (r"insert into jobs_trace", "25_trace.sql"),
        (r"pg_notify\s*\(", "30_notify.sql"),
        (r"insert into archived_jobs", "40_finish.sql"),
        (r"insert into jobs \(", "50_submit.sql"),
        (r"set state = 'RUNNING'", "55_claim.sql"),
    ],
)
def test_only_one_file_does_it(statement: str, place: str) -> None:
    assert [file.name for file in shipped().functions if re.search(statement, file.sql)] == [place]
