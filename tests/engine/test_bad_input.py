"""What cannot be is refused in words that name it, and nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from holdfast.engine import installer
from holdfast.errors import InvalidArgument
from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    contents,
    job,
    settle,
    state,
    submit,
    submit_and_claim,
    value,
)

INVALID, NOT_FOUND, TAKEN, WRONG_STATE = "22023", "HF001", "HF002", "HF003"

MIB = 1024 * 1024
NAN, INFINITY = float("nan"), float("inf")

# A function, what is wrong with its arguments, and what the error must say.
Case = tuple[str, Mapping[str, object], str]


def assert_refused(conn: Connection, cases: Iterable[Case], sqlstate: str = INVALID) -> None:
    """Each is refused with this SQLSTATE and these words, and stores nothing."""
    before = contents(conn)
    wrong = [problem for case in cases if (problem := _problem(conn, case, sqlstate))]
    assert wrong == []
    assert contents(conn) == before


def _problem(conn: Connection, case: Case, sqlstate: str) -> str | None:
    function, arguments, words = case
    shown = f"{function}({str(dict(arguments))[:100]})"
    try:
        answered = call(conn, function, **arguments)
    except psycopg.Error as error:
        if error.sqlstate != sqlstate:
            return f"{shown}: {error.sqlstate} {error}"
        return None if words in str(error) else f"{shown}: {words!r} is not in {error}"
    return f"{shown}: was not refused, but answered {answered}"


@pytest.fixture
def held(conn: Connection) -> dict[str, Any]:
    """A running job: its id, lease and worker as named arguments."""
    lease = submit_and_claim(conn, "held")
    return {"p_job_id": "held", "p_lease_id": lease, "p_worker_id": "w"}


SUBMIT = {"p_job_id": "job", "p_worker_id": "w", "p_next_need": "q"}


def submission(words: str, **wrong: object) -> Case:
    return ("submit_job", {**SUBMIT, **wrong}, words)


def test_ids_needs_and_workers_of_a_submission_are_required(conn: Connection) -> None:
    assert_refused(
        conn,
        [
            submission("p_job_id is required and was null", p_job_id=None),
            submission("p_job_id is required and was empty", p_job_id=""),
            submission("p_worker_id is required and was null", p_worker_id=None),
            submission("p_worker_id is required and was empty", p_worker_id=""),
            submission("p_next_need is required and was null", p_next_need=None),
            submission("p_next_need is required and was empty", p_next_need=""),
        ],
    )


def test_names_that_cannot_be_are_refused(conn: Connection) -> None:
    long = "ä" * 20 + "x"
    assert_refused(
        conn,
        [
            submission("ids of the form j<number> are generated", p_job_id="j123"),
            submission("ids of the form j<number> are generated", p_job_id="j0"),
            submission("ids of the form j<number> are generated", p_job_id="j" + "9" * 30),
            submission("more than 1000 bytes", p_job_id="x" * 1001),
            submission(f'queue name "{long}" has 41 bytes; at most 40 fit', p_next_need=long),
            submission("the task name is empty", p_task=""),
            submission("the singleton key is empty", p_singleton_key=""),
            submission("tags must be a JSON array of non-empty strings", p_tags=[""]),
            submission("tags must be a JSON array of non-empty strings", p_tags=["a", None]),
            submission("resource_keys must be a JSON array of non-empty strings", p_resource_keys=[None]),
            ("submit_jobs", {"p_job_ids": [""]}, "the id is empty"),
            ("submit_jobs", {"p_queues": ["q", ""]}, "the queue name is empty (job number 2 of the call)"),
            ("submit_jobs", {"p_job_ids": ["a", "b"], "p_queues": ["q", long]}, 'fit (job "b")'),
        ],
    )


def test_a_queue_name_too_long_is_refused_with_notify_off_too(conn: Connection) -> None:
    value(conn, "set_notify", p_enabled=False)

    assert_refused(conn, [submission("has 41 bytes", p_next_need="q" * 41)])


def test_times_that_cannot_be_are_refused(conn: Connection, clock: Clock) -> None:
    delay = "the delay must be 0 to a billion seconds, not"
    assert_refused(
        conn,
        [
            submission("give available_at or a delay, not both", p_delay=1, p_available_at=clock.now()),
            submission(f"{delay} -1", p_delay=-1),
            submission(f"{delay} NaN", p_delay=NAN),
            submission(f"{delay} Infinity", p_delay=INFINITY),
            submission(f"{delay} -Infinity", p_delay=-INFINITY),
            submission("available_at must be finite", p_available_at="infinity"),
            submission("available_at must be finite", p_available_at="-infinity"),
            submission("created_at must be finite", p_created_at="infinity"),
            submission("the timeout must be more than 0, not 0", p_timeout=0),
            submission("the timeout must be more than 0, not -3", p_timeout=-3),
            submission("the timeout must be more than 0, not NaN", p_timeout=NAN),
            submission("the timeout must be more than 0, not Infinity", p_timeout=INFINITY),
            submission("max_attempts must be at least 1, not 0", p_max_attempts=0),
            submission("max_attempts must be at least 1, not -1", p_max_attempts=-1),
        ],
    )


def test_dependencies_that_cannot_be_are_refused(conn: Connection) -> None:
    rule = "if_parent_fails must be wait, cancel or run, not"
    wait_for = "wait_for must be a JSON array of non-empty strings"
    assert_refused(
        conn,
        [
            submission('wait_for names job "nobody", which does not exist', p_wait_for=["nobody"]),
            submission('wait_for names job "j999", which does not exist', p_wait_for=["j999"]),
            submission("job waits for job; nothing was stored", p_wait_for=["job"]),
            submission(f'{rule} "explode"', p_if_parent_fails="explode"),
            submission(f'{rule} ""', p_if_parent_fails=""),
            ("submit_jobs", {"p_job_ids": ["a"], "p_wait_for": [Jsonb("parent")]}, wait_for),
            ("submit_jobs", {"p_job_ids": ["a"], "p_wait_for": [Jsonb([1])]}, wait_for),
            ("submit_jobs", {"p_job_ids": ["a"], "p_wait_for": [Jsonb({"a": 1})]}, wait_for),
            (
                "submit_jobs",
                {"p_job_ids": ["a", "b"], "p_wait_for": [Jsonb(["b"]), Jsonb(["a"])]},
                "these jobs would wait for each other for ever: a waits for b, which waits for a",
            ),
            (
                "submit_jobs",
                {"p_job_ids": ["a", "b", "c"], "p_wait_for": [Jsonb(["b"]), Jsonb(["c"]), Jsonb(["a"])]},
                "a waits for b, which waits for c, which waits for a",
            ),
        ],
    )


def test_a_bad_tag_list_is_refused(conn: Connection) -> None:
    words = "must be a JSON array of non-empty strings, not"
    assert_refused(
        conn,
        [
            ("submit_jobs", {"p_job_ids": ["a"], parameter: [Jsonb(bad)]}, words)
            for parameter in ("p_tags", "p_resource_keys")
            for bad in ("red", {"red": True}, [1], ["red", None], ["red", ["blue"]], 7)
        ],
    )


def test_an_id_that_is_taken_or_named_twice_is_refused(conn: Connection) -> None:
    submit(conn, "live")
    settle(conn, "done", "complete", submit_and_claim(conn, "done", queue="d"))
    call(conn, "cancel_job", p_job_id=submit(conn, "gone")["job_id"], p_worker_id="w")
    assert_refused(
        conn,
        [
            submission('job "live" already exists (INITIAL_PENDING)', p_job_id="live"),
            submission('job "done" has already completed and cannot be resubmitted', p_job_id="done"),
            submission('job "gone" has already ended (UNSCHEDULED)', p_job_id="gone"),
            ("submit_jobs", {"p_job_ids": ["a", "b", "a"]}, 'job id "a" appears twice in the call'),
            ("submit_jobs", {"p_job_ids": ["new", "live"]}, 'job "live" already exists'),
        ],
        TAKEN,
    )


def test_a_payload_too_large_is_refused_and_names_its_size(conn: Connection, held: dict[str, Any]) -> None:
    large = Jsonb("x" * (2 * MIB))
    words = f"the payload has {2 * MIB + 2} bytes of JSON; at most {MIB} are allowed"
    assert_refused(
        conn,
        [
            submission(words, p_payload=large),
            submission("at most 1048576 are allowed", p_payload_bytes=bytes(MIB + 1)),
            ("reschedule_job", {**held, "p_next_need": "q", "p_payload": large}, words),
            (
                "submit_jobs",
                {"p_payloads": [Jsonb(1)], "p_payload_bytes": [b"1"]},
                "the payload is JSON or bytes, not both",
            ),
        ],
    )
    submit(conn, "as large as allowed", p_payload=Jsonb("x" * (MIB - 2)))
    submit(conn, "bytes as many as allowed", p_payload_bytes=bytes(MIB))


def test_a_payload_of_many_small_numbers_is_measured_as_json(conn: Connection) -> None:
    """A jsonb of numbers is much larger in memory than as text, and must not be refused for that."""
    submit(conn, "job", p_payload=Jsonb([0] * 300_000))

    assert len(job(conn, "job")["payload"]) == 300_000


def test_a_payload_that_is_not_json_is_refused_by_the_database(conn: Connection) -> None:
    before = contents(conn)
    for text in ("{not json", "", "NaN", "{'a': 1}", '"\\u0000"', '"\\ud800"'):
        with pytest.raises(psycopg.DataError):
            call(conn, "submit_job", **SUBMIT, p_payload=text)
    assert contents(conn) == before


def test_arrays_of_different_lengths_are_refused(conn: Connection, held: dict[str, Any]) -> None:
    submit_words = "every array that is given must have one element for each of the"
    settle_words = "every array that is given must have one element for each of the 1 jobs"
    one: dict[str, object] = {"p_job_ids": ["held"], "p_operations": ["complete"]}
    two_leases = [held["p_lease_id"], held["p_lease_id"]]
    assert_refused(
        conn,
        [
            ("submit_jobs", {"p_job_ids": ["a", "b"], "p_queues": ["q"]}, f"{submit_words} 2 jobs"),
            ("submit_jobs", {"p_queues": ["q"], "p_priorities": [1, 2]}, f"{submit_words} 1 jobs"),
            ("submit_jobs", {"p_delays": [1.0]}, submit_words),
            ("settle_jobs", {"p_job_ids": ["held"], "p_operations": []}, "1 job ids but 0 operations"),
            ("settle_jobs", {"p_job_ids": None, "p_operations": ["stop"]}, "0 job ids but 1 operations"),
            ("settle_jobs", {**one, "p_lease_ids": []}, settle_words),
            ("settle_jobs", {**one, "p_lease_ids": two_leases}, settle_words),
            ("settle_jobs", {**one, "p_results": []}, settle_words),
            ("settle_jobs", {**one, "p_result_bytes": [b"", b""]}, settle_words),
            ("settle_jobs", {**one, "p_messages": ["a", "b"]}, settle_words),
            ("settle_jobs", {**one, "p_tracebacks": ["a", "b"]}, settle_words),
            ("settle_jobs", {**one, "p_delays": [1.0, 2.0]}, settle_words),
            ("settle_jobs", {**one, "p_permanent": []}, settle_words),
            ("extend_leases", {"p_job_ids": ["held"], "p_lease_ids": [], "p_seconds": 9}, "1 job ids but 0"),
        ],
    )


def test_a_batch_without_leases_for_all_its_jobs_is_never_taken_for_unguarded(
    conn: Connection, held: dict[str, Any]
) -> None:
    submit_and_claim(conn, "other", queue="o", worker="somebody else")

    with pytest.raises(psycopg.errors.InvalidParameterValue):
        call(
            conn,
            "settle_jobs",
            p_job_ids=["held", "other"],
            p_operations=["complete", "complete"],
            p_lease_ids=[held["p_lease_id"]],
        )
    assert state(conn, "other") == "RUNNING"


def test_a_settle_of_what_cannot_be_is_refused(conn: Connection, held: dict[str, Any]) -> None:
    one: dict[str, object] = {"p_job_ids": ["held"], "p_operations": ["reschedule"]}
    delay = "the delay must be 0 to a billion seconds, not"
    assert_refused(
        conn,
        [
            ("settle_jobs", {"p_job_ids": [None], "p_operations": ["stop"]}, "a job id is null or empty"),
            ("settle_jobs", {"p_job_ids": [""], "p_operations": ["stop"]}, "a job id is null or empty"),
            ("settle_jobs", {**one, "p_operations": ["explode"]}, "operation 'explode' is not known"),
            ("settle_jobs", {**one, "p_operations": ["lapse"]}, "operation 'lapse' is not known"),
            ("settle_jobs", {**one, "p_operations": [None]}, "operation null is not known"),
            ("settle_jobs", {**one, "p_delays": [-0.5]}, f"{delay} -0.5"),
            ("settle_jobs", {**one, "p_delays": [NAN]}, f"{delay} NaN"),
            ("settle_jobs", {**one, "p_delays": [INFINITY]}, f"{delay} Infinity"),
            ("settle_jobs", {**one, "p_available_at": ["infinity"]}, "p_available_at must be finite"),
            ("fail_job", {**held, "p_error": "x", "p_delay": -1}, f"{delay} -1"),
            ("fail_job", {**held, "p_error": "x", "p_delay": NAN}, f"{delay} NaN"),
            ("fail_job", {**held, "p_error": ""}, "p_error is required and was empty"),
            ("fail_job", {**held, "p_error": None}, "p_error is required and was null"),
            ("fail_job", {**held, "p_error": "x", "p_permanent": None}, "p_permanent"),
            ("retry_later", {**held, "p_delay": INFINITY}, f"{delay} Infinity"),
            ("retry_later", {**held, "p_available_at": "infinity"}, "p_available_at must be finite"),
            ("retry_later", {**held, "p_available_at": "2040-01-01", "p_delay": 1}, "not both"),
            ("requeue_job", {**held, "p_available_at": "-infinity"}, "p_available_at must be finite"),
            ("acknowledge_cancellation", {**held, "p_was_executing": None}, "p_was_executing, not null"),
        ],
    )


def test_the_leased_functions_require_id_lease_and_worker(conn: Connection, held: dict[str, Any]) -> None:
    functions: dict[str, dict[str, object]] = {
        "extend_lease": {},
        "complete_job": {},
        "reschedule_job": {"p_next_need": "q"},
    }
    assert_refused(
        conn,
        [
            (function, {**held, **more, parameter: bad}, f"{parameter} is required and was {word}")
            for function, more in functions.items()
            for parameter in ("p_job_id", "p_lease_id", "p_worker_id")
            for bad, word in ((None, "null"), ("", "empty"))
        ],
    )


def test_every_other_function_requires_its_job_and_its_worker(conn: Connection) -> None:
    with_job: dict[str, dict[str, object]] = {
        "complete_unheld_job": {"p_worker_id": "w"},
        "reschedule_unheld_job": {"p_worker_id": "w", "p_next_need": "q"},
        "cancel_job": {"p_worker_id": "w"},
        "clear_crash_concern": {"p_worker_id": "w"},
        "fail_job": {"p_error": "x"},
        "requeue_job": {},
        "retry_later": {},
        "release_job": {},
        "stop_job": {},
        "stop_job_with_retry": {},
        "mark_job_unknown_stopped": {},
        "acknowledge_cancellation": {"p_was_executing": True},
        "revive_job": {},
        "get_job": {},
        "acquire_resources": {"p_keys": ["r"]},
        "release_resources": {},
        "report_progress": {"p_lease_id": "l", "p_done": 1},
    }
    with_worker = ("complete_unheld_job", "reschedule_unheld_job", "cancel_job", "clear_crash_concern")
    wrong = ((None, "null"), ("", "empty"))
    assert_refused(
        conn,
        [
            (function, {**more, "p_job_id": bad}, f"p_job_id is required and was {word}")
            for function, more in with_job.items()
            for bad, word in wrong
        ]
        + [
            (
                function,
                {**with_job[function], "p_job_id": "x", "p_worker_id": bad},
                f"p_worker_id is required and was {word}",
            )
            for function in with_worker
            for bad, word in wrong
        ]
        + [
            ("mark_worker_unresponsive", {"p_worker_id": bad}, f"p_worker_id is required and was {word}")
            for bad, word in wrong
        ]
        + [
            (
                "report_progress",
                {"p_job_id": "x", "p_done": 1, "p_lease_id": bad},
                f"p_lease_id is required and was {word}",
            )
            for bad, word in wrong
        ],
    )


CLAIMS: dict[str, dict[str, object]] = {
    "get_work": {"worker": "p_worker_id", "queues": "p_worker_caps", "limit": "p_limit_jobs"},
    "claim_jobs": {"worker": "p_worker_id", "queues": "p_queues", "limit": "p_limit"},
}


def test_a_claim_requires_a_worker_queues_a_lease_and_a_limit(conn: Connection) -> None:
    submit(conn, "job")
    cases: list[Case] = []
    for function, names in CLAIMS.items():
        worker, queues, limit = (str(names[name]) for name in ("worker", "queues", "limit"))
        good: dict[str, object] = {worker: "w", queues: ["q"]}
        cases += [
            (function, {**good, worker: None}, f"{worker} is required and was null"),
            (function, {**good, worker: ""}, f"{worker} is required and was empty"),
            (function, {**good, queues: None}, f"{queues} must name at least one queue and was null"),
            (function, {**good, queues: []}, f"{queues} must name at least one queue and was empty"),
            (function, {**good, queues: ["q", None]}, f"{queues} is required and was null"),
            (function, {**good, queues: [""]}, f"{queues} is required and was empty"),
            (function, {**good, queues: ["q" * 41]}, "has 41 bytes; at most 40 fit"),
            (function, {**good, limit: 0}, "the limit must be at least 1, not 0"),
            (function, {**good, limit: -1}, "the limit must be at least 1, not -1"),
            (function, {**good, limit: None}, "the limit must be at least 1, not null"),
            (function, {**good, "p_lease_seconds": 0}, "p_lease_seconds must be more than 0"),
            (function, {**good, "p_lease_seconds": -60}, "at most a billion, not -60"),
            (function, {**good, "p_lease_seconds": None}, "at most a billion, not null"),
        ]
    good = {"p_worker_id": "w", "p_queues": ["q"]}
    named = {**good, "p_job_id": "job"}
    cases += [
        ("claim_waiting_job", {**named, "p_worker_id": ""}, "p_worker_id is required and was empty"),
        ("claim_waiting_job", {**named, "p_limit": 0}, "the limit must be at least 1, not 0"),
        ("claim_waiting_job", {**named, "p_lease_seconds": 0}, "p_lease_seconds must be more than 0"),
        ("claim_waiting_job", {**named, "p_lease_seconds": NAN}, "at most a billion, not NaN"),
        ("claim_jobs", {**good, "p_lease_seconds": NAN}, "at most a billion, not NaN"),
        ("claim_jobs", {**good, "p_lease_seconds": INFINITY}, "at most a billion, not Infinity"),
        ("claim_jobs", {**good, "p_sweep": None}, "p_sweep"),
        ("claim_jobs", {**good, "p_tags": ["t", None]}, "p_tags"),
        ("next_due", {"p_queues": []}, "p_queues must name at least one queue and was empty"),
        ("jobs_of_stream", {"p_stream_id": None}, "p_stream_id is required and was null"),
    ]
    assert_refused(conn, cases)


def test_a_heartbeat_that_cannot_claim_settles_nothing(conn: Connection, held: dict[str, Any]) -> None:
    settling: dict[str, object] = {
        "p_job_ids": ["held"],
        "p_operations": ["complete"],
        "p_lease_ids": [held["p_lease_id"]],
    }
    good = {**settling, "p_worker_id": "w", "p_queues": ["q"], "p_limit": 1}
    assert_refused(
        conn,
        [
            ("settle_and_claim", {**good, "p_queues": []}, "p_queues must name at least one queue"),
            ("settle_and_claim", {**good, "p_worker_id": ""}, "p_worker_id is required and was empty"),
            ("settle_and_claim", {**good, "p_limit": None}, "the limit must be at least 0, not null"),
            ("settle_and_claim", {**good, "p_limit": -1}, "the limit must be at least 0, not -1"),
            ("settle_and_claim", {**good, "p_lease_seconds": 0}, "p_lease_seconds must be more than 0"),
            ("settle_and_claim", {**good, "p_sweep": None}, "p_sweep"),
            ("settle_and_claim", {**good, "p_brief": None}, "p_brief"),
            ("settle_jobs", {**settling, "p_only_refused": None}, "p_only_refused"),
        ],
    )
    assert call(conn, "settle_and_claim", **{**good, "p_limit": 0}) == []  # settles only
    assert state(conn, "held") == "COMPLETED"


def test_non_positive_seconds_limits_thresholds_and_capacities_are_refused(
    conn: Connection, held: dict[str, Any]
) -> None:
    seconds = "must be more than 0 and at most a billion, not"
    limit = "the limit must be at least 1, not"
    keeping = {"p_job_ids": ["held"], "p_lease_ids": [held["p_lease_id"]]}
    assert_refused(
        conn,
        [
            ("extend_lease", {**held, "p_additional_seconds": 0}, f"p_additional_seconds {seconds} 0"),
            ("extend_lease", {**held, "p_additional_seconds": -5}, f"p_additional_seconds {seconds} -5"),
            ("extend_lease", {**held, "p_additional_seconds": None}, f"p_additional_seconds {seconds} null"),
            ("extend_leases", {**keeping, "p_seconds": 0}, f"p_seconds {seconds} 0"),
            ("extend_leases", {**keeping, "p_seconds": NAN}, f"p_seconds {seconds} NaN"),
            ("extend_leases", {**keeping, "p_seconds": None}, f"p_seconds {seconds} null"),
            ("extend_leases", {**keeping, "p_job_ids": [None], "p_seconds": 9}, "job id"),
            ("list_stuck_jobs", {"p_stale_seconds": 0}, f"p_stale_seconds {seconds} 0"),
            ("list_stuck_jobs", {"p_stale_seconds": None}, f"p_stale_seconds {seconds} null"),
            ("list_stuck_jobs", {"p_stale_seconds": 1, "p_limit": 0}, f"{limit} 0"),
            ("list_dead_jobs", {"p_limit": -1}, f"{limit} -1"),
            ("list_dead_jobs", {"p_limit": None}, f"{limit} null"),
            ("get_queue_stats", {"p_limit": 0}, f"{limit} 0"),
            ("get_queue_stats", {"p_limit": None}, f"{limit} null"),
            ("tagged_jobs", {"p_tags": ["t"], "p_limit": 0}, f"{limit} 0"),
            ("tagged_jobs", {"p_tags": ["t"], "p_limit": None}, f"{limit} null"),
            ("held_jobs", {"p_limit": 0}, f"{limit} 0"),
            ("held_jobs", {"p_limit": None}, f"{limit} null"),
            ("tagged_jobs", {"p_tags": []}, "never means every job"),
            ("tagged_jobs", {"p_tags": None}, "never means every job"),
            ("tagged_jobs", {"p_tags": [None]}, "a tag is null"),
            ("list_waiting_jobs", {"p_job_id": "x", "p_limit": 0}, f"{limit} 0"),
            ("list_waiting_jobs", {"p_job_id": None}, "p_job_id is required"),
            ("count_ended_jobs", {"p_within_seconds": 0}, f"p_within_seconds {seconds} 0"),
            ("count_ended_jobs", {"p_within_seconds": 1, "p_limit": 0}, f"{limit} 0"),
            ("lapse_leases", {"p_limit": 0}, f"{limit} 0"),
            ("lapse_leases", {"p_limit": None}, f"{limit} null"),
            ("cleanup_expired_jobs", {"p_ttl_seconds": 0}, f"p_ttl_seconds {seconds} 0"),
            ("cleanup_expired_jobs", {"p_ttl_seconds": -1}, f"p_ttl_seconds {seconds} -1"),
            ("cleanup_expired_jobs", {"p_ttl_seconds": None}, f"p_ttl_seconds {seconds} null"),
            ("cleanup_expired_jobs", {"p_ttl_seconds": 1, "p_limit": 0}, f"{limit} 0"),
            ("cancel_expired_jobs", {"p_older_than_seconds": -1}, "p_older_than_seconds"),
            ("cancel_expired_jobs", {"p_older_than_seconds": None}, "p_older_than_seconds"),
            ("cancel_expired_jobs", {"p_older_than_seconds": NAN}, "p_older_than_seconds"),
            ("cancel_expired_jobs", {"p_limit": 0}, f"{limit} 0"),
            ("set_crash_concern_threshold", {"p_threshold": 0}, "must be at least 1, not 0"),
            ("set_crash_concern_threshold", {"p_threshold": -1}, "must be at least 1, not -1"),
            ("set_crash_concern_threshold", {"p_threshold": None}, "must be at least 1, not null"),
            ("set_resource_capacity", {"p_key": "r", "p_capacity": 0}, '"r" must be at least 1, not 0'),
            ("set_resource_capacity", {"p_key": "r", "p_capacity": None}, '"r" must be at least 1, not null'),
            ("set_resource_capacity", {"p_key": "", "p_capacity": 1}, "p_key is required and was empty"),
            ("acquire_resources", {"p_job_id": "held", "p_keys": [None]}, "key is null or empty"),
            ("acquire_resources", {"p_job_id": "held", "p_keys": [""]}, "key is null or empty"),
            ("acquire_resources", {"p_job_id": "held", "p_keys": None}, "p_keys"),
            ("report_progress", {**_without_worker(held), "p_done": None}, "p_done"),
        ],
    )


def _without_worker(held: dict[str, Any]) -> dict[str, object]:
    return {name: argument for name, argument in held.items() if name != "p_worker_id"}


def test_null_flags_and_unknown_levels_are_refused(conn: Connection) -> None:
    assert_refused(
        conn,
        [
            ("set_trace", {"p_enabled": None}, "set_trace needs true or false, not null"),
            ("set_notify", {"p_enabled": None}, "set_notify needs true or false, not null"),
            ("set_trace_level", {"p_level": "loud"}, "trace level 'loud' is not known"),
            ("set_trace_level", {"p_level": None}, "trace level null is not known"),
            ("set_trace_level", {"p_level": ""}, "trace level '' is not known"),
        ],
    )


def test_queues_to_pause_are_required(conn: Connection) -> None:
    assert_refused(
        conn,
        [
            (function, {"p_queue": bad, **more}, words)
            for function, more in [
                ("pause_queue", {}),
                ("resume_queue", {}),
                ("set_queue_limit", {"p_limit": 1}),
            ]
            for bad, words in [
                (None, "p_queue is required and was null"),
                ("", "p_queue is required and was empty"),
                ("q" * 41, "has 41 bytes"),
            ]
        ],
    )


def test_cancelling_or_deleting_with_neither_tags_nor_ids_never_means_everything(conn: Connection) -> None:
    settle(conn, "done", "complete", submit_and_claim(conn, "done", p_tags=["t"]))
    submit(conn, "live", p_tags=["t"])
    neither: list[dict[str, object]] = [
        {},
        {"p_tags": None, "p_job_ids": None},
        {"p_tags": [], "p_job_ids": []},
        {"p_tags": [], "p_job_ids": None},
    ]
    assert_refused(
        conn,
        [
            (function, filters, f"{function} needs tags or job ids; it never means every job")
            for function in ("cancel_jobs", "delete_jobs")
            for filters in neither
        ]
        + [
            (function, {"p_job_ids": [bad]}, f"{function}: a job id is null or empty")
            for function in ("cancel_jobs", "delete_jobs")
            for bad in (None, "")
        ]
        + [
            (function, {"p_tags": ["t", None]}, "tag")
            for function in ("cancel_jobs", "delete_jobs", "get_job_stats")
        ],
    )


def test_reschedules_to_what_cannot_be_are_refused(conn: Connection, held: dict[str, Any]) -> None:
    submit(conn, "child", p_wait_for=["held"])
    good = {**held, "p_next_need": "q"}
    assert_refused(
        conn,
        [
            ("reschedule_job", {**good, "p_next_need": None}, "p_next_need is required and was null"),
            ("reschedule_job", {**good, "p_next_need": ""}, "p_next_need is required and was empty"),
            ("reschedule_job", {**good, "p_next_need": "q" * 41}, "has 41 bytes"),
            ("reschedule_job", {**good, "p_wait_for": ["nobody"]}, 'job "nobody", which does not exist'),
            ("reschedule_job", {**good, "p_wait_for": [""]}, 'job "", which does not exist'),
            ("reschedule_job", {**good, "p_available_at": "infinity"}, "p_available_at must be finite"),
            (
                "reschedule_job",
                {**good, "p_wait_for": ["child"]},
                'waiting for "child" would close a cycle: held waits for child, which waits for held',
            ),
        ],
    )


def test_jobs_that_do_not_exist_are_named(conn: Connection) -> None:
    functions: dict[str, dict[str, object]] = {
        "complete_job": {"p_lease_id": "l", "p_worker_id": "w"},
        "reschedule_job": {"p_lease_id": "l", "p_worker_id": "w", "p_next_need": "q"},
        "extend_lease": {"p_lease_id": "l", "p_worker_id": "w"},
        "complete_unheld_job": {"p_worker_id": "w"},
        "reschedule_unheld_job": {"p_worker_id": "w", "p_next_need": "q"},
        "cancel_job": {"p_worker_id": "w"},
        "clear_crash_concern": {"p_worker_id": "w"},
        "revive_job": {},
        "fail_job": {"p_error": "x"},
        "requeue_job": {},
        "stop_job": {},
        "stop_job_with_retry": {},
        "mark_job_unknown_stopped": {},
        "acknowledge_cancellation": {"p_was_executing": True},
        "acquire_resources": {"p_keys": ["r"]},
    }
    assert_refused(
        conn,
        [
            (function, {"p_job_id": name, **more}, f'"{name}"')
            for function, more in functions.items()
            for name in ("nobody", "j77", "j99999999999999999999")
        ],
        NOT_FOUND,
    )


@pytest.mark.parametrize("name", ['a"b', "a'b", "A", "a-b", "", "pg_x", "1a", "a" * 17, "a;b", "ä"])
def test_a_schema_name_that_cannot_be_is_refused(blank_database: str, name: str) -> None:
    with psycopg.connect(blank_database, autocommit=True) as conn:
        with pytest.raises(InvalidArgument, match="schema name"):
            installer.install(conn, name)
        schemas = conn.execute(
            "select nspname from pg_namespace where nspname !~ '^pg_|^public$|^information'"
        )
        assert schemas.fetchall() == []


ODD_NAMES = [
    "x'; drop table holdfast.jobs; --",
    '"; drop schema holdfast; --',
    "%s %(name)s %",
    "back\\slash \\' \\n",
    "new\nline\ttab",
    "$$ $1 {} {{a,b}}",
    "NULL",
    "  spaces  ",
    "ünïcödé 日本語 🦑",
    "x" * 40,
    "12345",
    "j-1",
    "J1",
]


@pytest.mark.parametrize("name", [name for name in ODD_NAMES if len(name.encode()) <= 40])
def test_odd_names_are_only_names(conn: Connection, name: str) -> None:
    """As id, queue, worker, tag, key, resource, task, reason and error."""
    value(conn, "set_trace", p_enabled=True)
    submit(
        conn,
        name,
        name,
        p_tags=[name, "other"],
        p_singleton_key=name,
        p_task=name,
        p_resource_keys=[name],
        p_payload=Jsonb({name: name}),
    )
    submit(conn, "child", name, p_wait_for=[name])
    lease = claim_one(conn, name, name, name, p_tags=[name])
    assert value(conn, "acquire_resources", p_job_id=name, p_keys=[name], p_worker_id=name) == []
    assert settle(conn, name, "fail", lease, p_messages=[name], p_worker_id=name)["ok"]
    found = job(conn, name)
    assert (found["next_need"], found["assignee_id"], found["last_error"]) == (name, name, name)
    assert (found["tags"], found["payload"]) == ([name, "other"], {name: name})
    assert call(conn, "get_work", p_worker_id=name, p_worker_caps=[name])[0]["job_id"] == name
    assert call(conn, "get_work", p_worker_id=name, p_worker_caps=[name]) == []  # and LISTENs
    assert value(conn, "mark_worker_unresponsive", p_worker_id=name) == 1
    assert value(conn, "pause_queue", p_queue=name) is True
    assert claim(conn, name) == []
    cancelled = call(conn, "cancel_jobs", p_tags=[name], p_worker_id=name, p_reason=name)
    assert [(row["job_id"], row["cancelled"]) for row in cancelled] == [(name, True)]
    assert state(conn, "child") == "UNSCHEDULED"
    assert value(conn, "delete_jobs", p_tags=[name]) == 1
