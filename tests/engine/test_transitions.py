"""Every operation, through every function that offers it, from every state: the SQL does what the table says.

The table is `holdfast.domain.lifecycle.TRANSITIONS`. A case runs in a transaction that is rolled back, in the
database of its stage, so that thousands of them need some forty databases and no cleaning up.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator
from datetime import datetime
from typing import TypeAlias

import psycopg
import pytest

from holdfast.domain.lifecycle import TRANSITIONS
from holdfast.domain.states import ARCHIVED, HELD
from tests.clock import Clock
from tests.databases import Databases
from tests.engine import effects, snapshot
from tests.engine.answers import Answer, Refusal
from tests.engine.entry_points import ENTRY_POINTS, EntryPoint
from tests.engine.expectations import Given, Steps
from tests.engine.jobs_in_state import JOB, STAGES, WORKER, Stage, Staged, set_stage
from tests.engine.snapshot import Row, Snapshot

SetStage: TypeAlias = Callable[[Stage], tuple[Staged, Snapshot]]


@pytest.fixture(scope="module")
def on_stage(databases: Databases, template: str) -> Generator[SetStage]:
    """The stage for a case, set once, and how everything looks on it."""
    ready: dict[Stage, tuple[Staged, Snapshot]] = {}
    names = []

    def set_once(stage: Stage) -> tuple[Staged, Snapshot]:
        if stage not in ready:
            names.append(databases.create(template=template))
            conn = psycopg.connect(databases.dsn(names[-1]), autocommit=True)
            staged = set_stage(conn, Clock(conn), stage)
            ready[stage] = staged, snapshot.take(conn)
        return ready[stage]

    yield set_once
    for staged, _ in ready.values():
        staged.conn.close()
    for name in names:
        databases.drop_later(name)


def cases(*, leased: bool = False, by_worker: bool = False) -> list[object]:
    """A case for each pair of a function and a stage, or only for functions that take a lease or a worker."""
    return [
        pytest.param(entry, stage, id=f"{entry} from {stage}")
        for entry in ENTRY_POINTS
        for stage in entry.stages
        if (entry.names_a_lease or not leased) and (entry.names_a_worker or not by_worker)
    ]


@pytest.mark.parametrize(("entry", "stage"), cases())
def test_an_operation_does_what_the_table_says(entry: EntryPoint, stage: Stage, on_stage: SetStage) -> None:
    staged, _ = on_stage(stage)
    never_had_one = str(uuid.uuid4())

    check(entry, stage, Given(staged.lease_id or never_had_one), on_stage)


@pytest.mark.parametrize(("entry", "stage"), cases(leased=True))
def test_without_a_lease_the_state_alone_decides(entry: EntryPoint, stage: Stage, on_stage: SetStage) -> None:
    check(entry, stage, Given(), on_stage)


@pytest.mark.parametrize(("entry", "stage"), cases(leased=True))
def test_a_lease_that_is_not_the_jobs_changes_nothing(
    entry: EntryPoint, stage: Stage, on_stage: SetStage
) -> None:
    staged, _ = on_stage(stage)
    stale = staged.stale_lease_id or str(uuid.uuid4())

    check_refused(entry, stage, [Given(stale), Given("no uuid")], on_stage)


@pytest.mark.parametrize(("entry", "stage"), cases(by_worker=True))
def test_a_worker_that_is_named_must_be_the_holder(
    entry: EntryPoint, stage: Stage, on_stage: SetStage
) -> None:
    staged, _ = on_stage(stage)

    check(entry, stage, Given(worker_id=WORKER), on_stage)
    check_refused(entry, stage, [Given(lease, "another") for lease in (staged.lease_id, None)], on_stage)


def test_every_transition_is_tried(on_stage: SetStage) -> None:
    tried = set()
    for entry in ENTRY_POINTS:
        for stage in entry.stages:
            staged, before = on_stage(stage)
            outcome = entry.expect(stage, before.job(JOB), Given(staged.lease_id))
            tried |= set(() if isinstance(outcome, Refusal) else outcome)

    assert set(TRANSITIONS) - tried == set()


def test_every_function_that_changes_jobs_is_tried(on_stage: SetStage) -> None:
    switches = {
        *("set_notify", "set_trace", "set_trace_level", "set_crash_concern_threshold"),
        *("set_resource_capacity", "pause_queue", "resume_queue", "set_queue_limit"),
        "set_archive_retention",
    }
    keeps_house = {"report_worker", "upkeep"}  # tests/engine/test_upkeep.py, test_archive.py
    looks_up = {"normalize_wait_for", "next_due", "jobs_of_stream"}
    staged, _ = on_stage(STAGES[0])
    public = staged.conn.execute(
        """select proname from pg_proc
        where pronamespace = 'holdfast'::regnamespace and proname !~ '^_' and provolatile = 'v'"""
    )
    names = {name for (name,) in public}

    assert names - switches - looks_up - keeps_house == {entry.function for entry in ENTRY_POINTS}


def check(entry: EntryPoint, stage: Stage, given: Given, on_stage: SetStage) -> None:
    """Call it, and compare all that is there afterwards with what the table says."""
    staged, before = on_stage(stage)
    expected = entry.expect(stage, before.job(JOB), given)
    if isinstance(expected, Refusal):
        check_refused(entry, stage, [given], on_stage)
        return
    with staged.conn.transaction(force_rollback=True):
        answer = entry.ask(staged.conn, given)
        after = snapshot.take(staged.conn)

    check_answer(entry, expected, answer)
    assert entry.reaches_all or effects.unexpected_changes(expected, before, after) == set()
    assert [row["event_type"] for row in new_traces(before, after)] == effects.events(expected)
    check_effects(stage, expected, before, after, staged.now)


def check_refused(entry: EntryPoint, stage: Stage, attempts: list[Given], on_stage: SetStage) -> None:
    """Call it again and again; each time the caller learns why not, and in the end nothing has changed."""
    staged, before = on_stage(stage)
    with staged.conn.transaction(force_rollback=True):
        answers = [entry.ask(staged.conn, given) for given in attempts]
        after = snapshot.take(staged.conn)

    for given, answer in zip(attempts, answers, strict=True):
        refusal = entry.expect(stage, before.job(JOB), given)
        assert isinstance(refusal, Refusal)
        assert answer.accepted is not True
        assert answer.word == entry.manner.words.get(refusal)
        assert JOB in answer.message or not answer.message or refusal is Refusal.LEASE_MISSING
    assert entry.reaches_all or before.changed(after) == set()
    assert after.job(JOB) == before.job(JOB)


def check_answer(entry: EntryPoint, steps: Steps, answer: Answer) -> None:
    """A claim that only swept has not claimed, and says so."""
    done = not steps or any(step.operation is entry.operation for step in steps)
    assert answer.accepted in (done, None), answer
    if answer.state is not None and steps:
        assert answer.state == steps[-1].target


def check_effects(stage: Stage, steps: Steps, before: Snapshot, after: Snapshot, now: datetime) -> None:
    goal = steps[-1].target if steps else stage.state
    job, stored = after.job(JOB), after.stored(JOB)
    if goal is None:
        assert (job, stored) == (None, None)
        assert not {("job_names", JOB)} & after.rows.keys()
        return
    assert job is not None
    assert job["state"] == goal
    table = "archived_jobs" if goal in ARCHIVED else "jobs"
    assert {name for name in ("jobs", "archived_jobs") if (name, str(job["number"])) in after.rows} == {table}
    if stage.state is not None:
        assert effects.missing_effects(steps, before.job(JOB) or {}, job, now) == []
    holds = {row["key"] for row in after.of("holds") if row["job_id"] == job["number"]}
    assert (goal in HELD) == bool(holds) or not steps


def new_traces(before: Snapshot, after: Snapshot) -> list[Row]:
    """In the order they were written, of the job on the stage."""
    keys = after.rows.keys() - before.rows.keys()
    traces = [after.rows[table, key] for table, key in keys if table == "jobs_trace"]
    return sorted((row for row in traces if row["job_id"] == JOB), key=lambda row: int(row["trace_id"]))
