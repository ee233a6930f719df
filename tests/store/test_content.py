"""What goes in comes out, what cannot go in is refused by name, nothing keeps a job from being settled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.config import PAYLOAD_BYTES
from holdfast.domain.content import TEXT_CHARACTERS
from holdfast.domain.job import ClaimedJob, Content, Job, NewJob
from holdfast.domain.outcome import Completed, Failed, Outcome, StoppedWithRetry
from holdfast.errors import PayloadError
from holdfast.store import SyncStore

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def claim_one(store: SyncStore) -> ClaimedJob:
    (job,) = store.claim_jobs("w", ["default"])
    return job


def settle_one(store: SyncStore, outcome: Outcome) -> Job:
    """Submit a job, claim it, settle it, and read it."""
    store.submit_jobs([NewJob()])
    job = claim_one(store)
    (verdict,) = store.settle_jobs([(job.job_id, job.lease_id, outcome)])
    assert verdict.ok, verdict
    read = store.get_job(job.job_id)
    assert read is not None
    return read


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON | st.binary(max_size=50))
def test_a_payload_and_a_result_come_back_equal(store: SyncStore, payload: Content) -> None:
    store.submit_jobs([NewJob(payload=payload)])
    claimed = claim_one(store)
    store.settle_jobs([(claimed.job_id, claimed.lease_id, Completed(payload))])

    read = store.get_job(claimed.job_id)

    assert claimed.payload == payload
    assert read is not None
    assert read.payload == read.result == payload
    assert type(read.result) is type(payload)


@pytest.mark.parametrize(
    "value",
    [2**63, -(10**100), 10**4299, 1e16, 1e23, 1.7976931348623157e308, 5e-324, 0.1, 12345678901234567890.0],
)
def test_numbers_are_exact_and_keep_their_kind(store: SyncStore, value: float) -> None:
    store.submit_jobs([NewJob(payload={"n": value})])

    claimed = claim_one(store)

    assert claimed.payload == {"n": value}
    assert isinstance(claimed.payload, dict)
    assert type(claimed.payload["n"]) is type(value)


def test_a_job_submitted_alone_keeps_its_payload_too(store: SyncStore) -> None:
    payloads: dict[str, Content] = {"json": {"n": 2**70}, "bytes": b"\0\xff", "none": None}
    for job_id, payload in payloads.items():
        submitted = store.submit_job(NewJob(job_id=job_id, payload=payload), "me")
        read = store.get_job(job_id)

        assert submitted.payload == payload
        assert read is not None
        assert read.payload == payload


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("a\0b", "NUL"),
        ({"deep": ["\ud800"]}, "surrogate"),
        ([math.nan], "nan"),
        (math.inf, "inf"),
        ({1: 2}, "key"),
        ({"at": object()}, "object"),
        ("x" * PAYLOAD_BYTES, "bytes as JSON"),
        (b"x" * (PAYLOAD_BYTES + 1), "1,048,577 bytes"),
        (10**5000, "digits"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else type(value).__name__,
)
def test_a_payload_that_cannot_be_stored_is_refused_before_anything_is_sent(payload: Any, words: str) -> None:
    nowhere = SyncStore("postgresql://127.0.0.1:1/nowhere")

    with pytest.raises(PayloadError, match=r"^jobs\[1\]\.payload") as raised:
        nowhere.submit_jobs([NewJob(), NewJob(payload=payload)])

    assert words in str(raised.value)


def test_a_payload_nested_too_deep_is_refused() -> None:
    payload: Any = []
    for _ in range(10**6):
        payload = [payload]

    with pytest.raises(PayloadError, match="nested deeper"):
        SyncStore("postgresql://127.0.0.1:1/nowhere").submit_jobs([NewJob(payload=payload)])


def test_a_payload_of_just_the_largest_size_is_taken(store: SyncStore) -> None:
    text, raw = "x" * (PAYLOAD_BYTES - 2), b"\xff" * PAYLOAD_BYTES
    store.submit_jobs([NewJob(payload=text), NewJob(payload=raw)])

    assert [job.payload for job in store.claim_jobs("w", ["default"], 2)] == [text, raw]


def deep() -> object:
    value: object = "bottom"
    for _ in range(10**6):
        value = [value]
    return value


class Stubborn:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    "make",
    [
        lambda: "a\0b",
        lambda: {"half": "\udfff"},
        lambda: [math.nan, math.inf],
        lambda: "x" * 10_000_000,
        lambda: b"x" * 10_000_000,
        deep,
        object,
        Stubborn,
        lambda: {1, 2},
        lambda: {(1, 2): 3},
        lambda: 10**5000,
        lambda: list(range(300_000)),
    ],
    ids=[
        "nul",
        "surrogate",
        "nan",
        "long",
        "long bytes",
        "deep",
        "object",
        "stubborn",
        "set",
        "key",
        "digits",
        "list",
    ],
)
def test_no_result_keeps_a_job_from_being_completed(store: SyncStore, make: Callable[[], Any]) -> None:
    job = settle_one(store, Completed(make()))

    assert job.state == "COMPLETED"
    assert "holdfast" in str(job.result)


@pytest.mark.parametrize(
    "text",
    ["a\0b", "\ud800x", "x" * 10_000_000, "\0" * 100_000, ""],
    ids=["nul", "half", "long", "nuls", "none"],
)
def test_no_error_text_keeps_a_job_from_being_failed(store: SyncStore, text: str) -> None:
    job = settle_one(store, Failed(text, traceback=text))

    (error,) = job.errors
    assert len(error.message) <= TEXT_CHARACTERS
    assert len(error.traceback or "") <= TEXT_CHARACTERS
    assert ("holdfast" in error.message) == (text != "")


def test_the_single_verbs_take_any_error_text(store: SyncStore) -> None:
    store.submit_jobs([NewJob() for _ in range(4)])
    a, b, c, d = store.claim_jobs("w", ["default"], 4)

    assert store.fail_job(a.job_id, "\0", traceback="\ud800", lease_id=a.lease_id) == "FAILED_RETRY"
    assert store.requeue_job(b.job_id, error="\0") == "FAILED_RETRY"
    assert store.retry_later(c.job_id, reason="\0")
    assert store.stop_job(d.job_id, "\0") == "STOPPED"


def test_the_content_of_one_job_does_not_touch_the_others_of_a_batch(store: SyncStore) -> None:
    store.submit_jobs([NewJob(queue="batch") for _ in range(3)])
    a, b, c = store.claim_jobs("w", ["batch"], 3)

    verdicts = store.settle_jobs(
        [
            (a.job_id, a.lease_id, Completed("\0")),
            (b.job_id, b.lease_id, Completed(b"\0")),
            (c.job_id, c.lease_id, Failed("\ud800")),
        ]
    )

    assert [verdict.ok for verdict in verdicts] == [True] * 3
    read = store.get_job(b.job_id)
    assert read is not None
    assert read.result == b"\0"


def test_a_settle_that_is_refused_for_its_content_is_written_without_it(
    store: SyncStore, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("""
        create function public.object() returns trigger language plpgsql as $$
        begin
          if row_to_json(new)::text ~ '[^\\x01-\\x7f]' then
            raise exception 'odd' using errcode = '22P05';
          end if;
          return new;
        end $$;
        create trigger object before insert on holdfast.archived_jobs
          for each row execute function public.object();
        create trigger object before insert on holdfast.job_errors
          for each row execute function public.object();
    """)

    done = settle_one(store, Completed({"price": "5 €"}))
    failed = settle_one(store, Failed("5 €", "in line €"))

    assert "refused to store" in str(done.result)
    assert (failed.errors[0].message, failed.errors[0].traceback) == (r"5 \u20ac", r"in line \u20ac")


def test_the_encoding_of_a_session_does_not_matter(database: str, conn: psycopg.Connection[Any]) -> None:
    conn.execute(f"alter database {conn.info.dbname} set client_encoding = 'LATIN1'".encode())
    with SyncStore(database) as store:
        assert settle_one(store, Completed("€")).result == "€"


def test_what_plain_sql_stored_beyond_pythons_reach_does_not_hold_up_a_claim(
    store: SyncStore, conn: psycopg.Connection[Any]
) -> None:
    conn.execute(
        """
        select holdfast.submit_jobs(
          p_queues => array_fill('odd'::text, array[4]),
          p_payloads => array[
            '1', ('[' || repeat('9', 5000) || ']')::jsonb,
            (repeat('[', 3000) || repeat(']', 3000))::jsonb, '4'],
          p_available_at => array['4713-01-01 BC'::timestamptz, null, null, null],
          p_expires_at => array[null, 'infinity'::timestamptz, '20000-01-01', null])
        """
    )

    first, long, deep, last = store.claim_jobs("w", ["odd"], 10)

    assert (first.payload, first.available_at.year, last.payload) == (1, 1, 4)
    assert long.payload == [int("9" * 4000) * 10**1000 + int("9" * 1000)]
    assert "cannot read" in str(deep.payload)
    read = store.get_job(long.job_id)
    assert read is not None
    assert read.expires_at is not None
    assert read.expires_at.year == 9999


def test_a_settled_batch_says_no_to_a_stop_with_retry_of_a_running_job(store: SyncStore) -> None:
    store.submit_jobs([NewJob()])
    job = claim_one(store)

    (verdict,) = store.settle_jobs([(job.job_id, job.lease_id, StoppedWithRetry("no"))])

    assert (verdict.ok, verdict.status, verdict.reason) == (False, "RUNNING", "wrong_state")
