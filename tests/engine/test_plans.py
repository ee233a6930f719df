"""Every call reads only what it is about, however many jobs there are; see `crowd` for what it must not read.

What reads more by choice: a claim without a floor steps over what stands in front of it (expired jobs, busy
keys, other tags), `get_job_stats` without tags counts every job, and no index serves a view's `job_id`.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from statistics import median

import pytest
from psycopg import IsolationLevel

from tests.conftest import Connect
from tests.databases import Databases, tidy
from tests.engine import crowd
from tests.engine.crowd.calls import SINGLE, Call, batches
from tests.engine.crowd.shapes import SINGLE_SHAPES, shapes
from tests.engine.plans import Plans, Reading

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TIMES = 7  # the first call plans; from the sixth on a plan for any parameters may take over
CALLS = SINGLE | SINGLE_SHAPES | batches(100) | shapes(100)
LARGE = batches(1000)

Floor = tuple[datetime, int]


@pytest.fixture(scope="module")
def crowded(databases: Databases) -> Generator[str]:
    """The address of a database with the crowd in it. Tests leave the crowd as they found it."""
    name = databases.create()
    crowd.fill(databases.dsn(name))
    yield databases.dsn(name)
    databases.drop_later(name)


@pytest.fixture
def plans(crowded: str, connect: Connect) -> Plans:
    conn = connect(crowded)
    # What tests take back leaves dead rows, all at the front of the same lines.
    conn.execute("vacuum holdfast.jobs, holdfast.claims, holdfast.jobs_trace, holdfast.job_errors")
    return Plans(conn)


def readings(plans: Plans, call: Call, times: int = TIMES) -> list[Reading]:
    """What the call reads when it is made again and again, without the first, which also reads catalogs."""
    parameters = call.before(plans.conn)
    found: list[Reading] = []
    for _ in range(times):
        with plans.undone():
            found.append(plans.read(call.sql, *parameters))
    return found[1:]


def excess(reading: Reading, call: Call) -> list[str]:
    """What the reading says too much for a call about so many jobs; and it must have found some."""
    jobs = call.jobs
    limits = {"fetched": 10 * jobs + 10, "blocks": 80 * jobs + 800, "sorted": 4 * jobs + 10}
    found = {"fetched": sum(reading.fetched.values()), "blocks": reading.blocks, "sorted": reading.sorted}
    said = ["no rows"] if jobs and call.answers and not reading.rows else []
    said += [f"{name}: {found[name]:.0f} > {limit}" for name, limit in limits.items() if found[name] > limit]
    said += [f"scanned {table}" for table in reading.scanned - {call.scans}]
    said += [str(step) for step in reading.steps if step.in_vain > 3 * jobs + 10]
    said += [str(step) for step in reading.steps if step.rows > 10 * jobs + 20]
    return said


@pytest.mark.parametrize("statistics", ["fresh", "none"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_reads_only_what_it_is_about(plans: Plans, name: str, statistics: str) -> None:
    call = CALLS[name]
    with plans.undone():
        if statistics == "none":
            plans.forget_statistics()
        found = readings(plans, call)
    assert [excess(reading, call) for reading in found] == [[]] * len(found)


@pytest.mark.parametrize("name", LARGE)
def test_a_batch_ten_times_as_large_reads_ten_times_as_much(plans: Plans, name: str) -> None:
    call = LARGE[name]
    with plans.undone():
        found = readings(plans, call, times=2)
    assert [excess(reading, call) for reading in found] == [[]] * len(found)


@pytest.mark.parametrize("queue", ["stale", "keyed"])
def test_a_floor_spares_a_claim_what_stands_in_front(plans: Plans, queue: str) -> None:
    claim = (
        f"select * from holdfast.claim_jobs('w', '{{{queue}}}', 100, p_floor_at => now() - interval '1 day')"
    )
    call = Call(claim, 100)
    with plans.undone():
        found = readings(plans, call)
    assert {reading.rows for reading in found} == {100}
    assert [excess(reading, call) for reading in found] == [[]] * len(found)


@pytest.mark.parametrize("limit", ["null", "1000"])
def test_a_cleanup_that_finds_nothing_old_looks_at_one_range_of_the_archive(plans: Plans, limit: str) -> None:
    cleanup = f"select holdfast.cleanup_expired_jobs(604800, {limit})"
    # What other tests wrote at the end of the archive and took back is not in the index's summary yet.
    plans.conn.execute("vacuum holdfast.archived_jobs")
    with plans.undone():
        found = readings(plans, Call(cleanup, 0))
    assert max(reading.blocks for reading in found) < 200


def test_claim_and_settle_cost_the_same_however_long_a_snapshot_is_held(
    database: str, connect: Connect
) -> None:
    plans, elsewhere = Plans(connect(database)), connect(database, autocommit=False)
    submit = "select holdfast.submit_jobs(p_queues => array_fill('line'::text, array[20000]))"
    plans.conn.execute(submit.encode())
    tidy(plans.conn)
    elsewhere.isolation_level = IsolationLevel.REPEATABLE_READ
    elsewhere.execute("select from holdfast.jobs limit 1")

    floor: Floor = (datetime.min.replace(tzinfo=UTC), 0)
    beats: list[tuple[int, int]] = []
    for _ in range(200):
        claim, settle, floor = beat(plans, floor)
        beats.append((claim.blocks, settle.blocks))

    assert plans.conn.execute("select count(*) from holdfast.archived_jobs").fetchone() == (20000,)
    for first, last in zip(median_of(beats[5:15]), median_of(beats[-10:]), strict=True):
        assert last < 2 * first


def beat(plans: Plans, floor: Floor) -> tuple[Reading, Reading, Floor]:
    """Claim 100 jobs as a busy worker does, from where the last claim began, and complete them."""
    claim = (
        "select * from holdfast.claim_jobs("
        "'w', '{line}', 100, 30, null, null, false, %s, %s, p_floor_priority => 0)"
    )
    held = (
        "select job_id, lease_id, available_at, number from holdfast.jobs_with_status where state = 'RUNNING'"
    )
    with plans.conn.transaction():
        claiming = plans.read(claim, *floor)
        jobs = plans.conn.execute(held.encode()).fetchall()
    with plans.conn.transaction():
        settling = plans.read(
            CALLS["settle completed"].sql, [job[0] for job in jobs], [job[1] for job in jobs]
        )
    return claiming, settling, min((job[2], job[3]) for job in jobs)


def median_of(beats: list[tuple[int, int]]) -> tuple[float, float]:
    return median(claim for claim, _ in beats), median(settle for _, settle in beats)
