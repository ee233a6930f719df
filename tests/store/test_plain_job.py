"""A plain job is written down in fewer steps than others; what is sent is the same."""

from __future__ import annotations

import pytest

from holdfast.domain.job import NewJob
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
def test_a_plain_job_is_sent_as_one_of_many_would_be(job: NewJob) -> None:
    assert submitting._of_plain_job(job) == submitting._Batch([job]).arrays()


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
    assert submitting._of_plain_job(job) is None
