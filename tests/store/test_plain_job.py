"""A plain job is written down in fewer steps than others; what it says is the same."""

from __future__ import annotations

import pytest

from holdfast.domain.job import NewJob
from holdfast.errors import InvalidArgument
from holdfast.store.calls import submitting


@pytest.mark.parametrize(
    "job",
    [
        NewJob(),
        NewJob(job_id="order-1", queue="mail", task="shop.send"),
        NewJob(payload={"to": ["ada", 'a "b" \\ c', "ü\n"], "n": [1, 1.5, None, True]}),
        NewJob(payload='{}\\"'),
        NewJob(payload=0),
        NewJob(task="x" * 40, payload=[]),
    ],
)
def test_a_plain_job_says_what_it_would_among_many(job: NewJob) -> None:
    call = submitting.submit_plain_job(job)

    assert submitting.columns_of(call) == (*submitting._Batch([job]).arrays(), None)


@pytest.mark.parametrize(
    "job",
    [
        NewJob(queue='a"b'),
        NewJob(queue="a\\b"),
        NewJob(queue=""),
        NewJob(task="ü"),
        NewJob(job_id="a\0b"),
        NewJob(job_id=""),
        NewJob(job_id="x" * 41),
        NewJob(payload=b"bytes"),
        NewJob(priority=1),
        NewJob(priority=False),
        NewJob(tags=["a"]),
        NewJob(delay_s=0),
        NewJob(retry={}),
    ],
)
def test_a_job_that_says_more_is_looked_at_closely(job: NewJob) -> None:
    with pytest.raises(InvalidArgument, match="is not plain: use submit_jobs"):
        submitting.submit_plain_job(job)
