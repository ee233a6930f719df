"""Operations on many jobs take locks in one order, whatever order their callers name them in: no deadlock.

A third session holds one job, so that two others come to wait half-way through, in the order the test wants.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.concurrency.sessions import Session, answer
from tests.conftest import Connect
from tests.engine.sql import (
    Connection,
    call,
    claim,
    column,
    refusal,
    rows,
    settle,
    state,
    states,
    submit,
    submit_and_claim,
    submit_many,
)

WRONG_STATE = "HF003"


def hold(session: Session, job_id: str) -> None:
    """Lock one job, as an open change of it would."""
    session.begin()
    session.conn.execute("select from holdfast.jobs where name = %s for update", [job_id])


def reschedule(conn: Connection, job_id: str, lease: str, *parents: str) -> None:
    call(
        conn,
        "reschedule_job",
        p_job_id=job_id,
        p_lease_id=lease,
        p_worker_id="w",
        p_next_need="q",
        p_wait_for=list(parents),
    )


Settled = list[dict[str, object]]


def settle_all(operation: str, leases: dict[str, str]) -> Callable[[Connection], Settled]:
    return lambda conn: call(
        conn,
        "settle_jobs",
        p_job_ids=list(leases),
        p_operations=[operation] * len(leases),
        p_lease_ids=list(leases.values()),
        p_messages=["said"] * len(leases),
    )


@pytest.mark.parametrize("operation", ["complete", "fail", "reschedule", "stop"])
def test_settle_batches_in_opposite_orders_do_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session, operation: str
) -> None:
    leases = {f"job-{number}": submit_and_claim(conn, f"job-{number}") for number in range(4)}
    backwards = dict(reversed(leases.items()))
    hold(third, "job-1")

    forth = first.start_blocked(settle_all(operation, leases))
    back = second.start_blocked(settle_all(operation, backwards))
    third.commit()

    assert all(row["ok"] for row in answer(forth))
    assert not any(row["ok"] for row in answer(back))


def test_a_batch_of_plain_and_other_completions_does_not_deadlock_with_a_cancellation(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    """What ends without consequences must not be locked before what has some, and a lower number."""
    leases = {job_id: submit_and_claim(conn, job_id) for job_id in ("parent", "between", "plain")}
    submit(conn, "child", p_wait_for=["parent"])
    between = leases.pop("between")
    hold(third, "between")

    cancelling = second.start_blocked(
        lambda session: call(session, "cancel_jobs", p_job_ids=["parent", "between", "plain"])
    )
    settling = first.start_blocked(settle_all("complete", leases))
    third.commit()

    assert all(row["cancelled"] for row in answer(cancelling))
    assert all(row["ok"] for row in answer(settling))
    assert settle(conn, "between", "complete", between)["ok"]


def test_extensions_in_opposite_orders_wait_for_nobody(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    leases = {f"job-{number}": submit_and_claim(conn, f"job-{number}") for number in range(4)}
    backwards = dict(reversed(leases.items()))

    def extend(session: Session, held: dict[str, str]) -> Settled:
        with session.impatient():
            return session.call(
                "extend_leases", p_job_ids=list(held), p_lease_ids=list(held.values()), p_seconds=60
            )

    hold(third, "job-1")
    first.begin()
    forth = extend(first, leases)
    back = extend(second, backwards)
    first.commit()
    third.commit()

    assert {row["verdict"] for row in forth + back} == {"extended"}


def test_large_settle_batches_in_opposite_orders_do_not_deadlock(
    conn: Connection, database: str, connect: Connect, first: Session
) -> None:
    submit_many(conn, [f"job-{number}" for number in range(300)])
    leases = {row["job_id"]: row["lease_id"] for row in claim(conn, limit=300)}
    backwards = dict(reversed(leases.items()))

    with ThreadPoolExecutor(2) as threads:
        forth = threads.submit(settle_all("complete", leases), connect(database))
        back = threads.submit(settle_all("complete", backwards), first.conn)

    settled = [row["job_id"] for row in answer(forth) + answer(back) if row["ok"]]
    assert sorted(map(str, settled)) == sorted(leases)


def cancel(*job_ids: str) -> Callable[[Connection], object]:
    return lambda conn: call(conn, "cancel_jobs", p_job_ids=list(job_ids))


def cancel_one(job_id: str) -> Callable[[Connection], object]:
    return lambda conn: call(conn, "cancel_job", p_job_id=job_id, p_worker_id="w")


def test_two_cascading_cancels_over_overlapping_trees_do_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    submit_many(conn, ["left", "right"])
    submit(conn, "middle", p_wait_for=["right", "left"])
    submit(conn, "leaf", p_wait_for=["middle", "left", "right"])
    hold(third, "middle")

    one = first.start_blocked(cancel("left", "middle"))
    other = second.start_blocked(cancel("middle", "right"))
    third.commit()
    answer(one)
    answer(other)

    assert states(conn, "left", "right", "middle", "leaf") == ["UNSCHEDULED"] * 4


def workflow(conn: Connection) -> dict[str, str]:
    """A job that split itself up: it was submitted first and waits for parts that came later."""
    lease = submit_and_claim(conn, "whole")
    leases = {part: submit_and_claim(conn, part) for part in ("part-1", "part-2")}
    reschedule(conn, "whole", lease, *leases)
    return leases


def test_cancelling_a_workflow_while_a_part_of_it_completes_does_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    leases = workflow(conn)
    hold(third, "whole")

    cancelling = first.start_blocked(cancel("whole", "part-1"))
    completing = second.start_blocked(lambda conn: settle(conn, "part-1", "complete", leases["part-1"]))
    third.commit()
    answer(cancelling)

    assert answer(completing)["ok"]
    assert states(conn, "whole", "part-1") == ["STOPPED", "COMPLETED"]


def test_submitting_a_child_of_a_workflow_while_a_part_of_it_completes_does_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    leases = workflow(conn)
    hold(third, "whole")

    submitting = first.start_blocked(lambda conn: submit(conn, "report", p_wait_for=["whole", "part-1"]))
    completing = second.start_blocked(lambda conn: settle(conn, "part-1", "complete", leases["part-1"]))
    third.commit()

    answer(submitting)
    assert answer(completing)["ok"]
    assert rows(conn, "select wait_for from holdfast.jobs_with_status where job_id = 'report'") == [
        {"wait_for": ["whole"]}
    ]


def test_two_cascading_cancels_do_not_deadlock_when_children_are_older_than_their_parents(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    submit(conn, "root", queue="elsewhere")
    lease = submit_and_claim(conn, "older")
    submit(conn, "younger", p_wait_for=["root"])
    reschedule(conn, "older", lease, "younger")
    hold(third, "older")

    from_root = first.start_blocked(cancel_one("root"))
    from_below = second.start_blocked(cancel_one("younger"))
    third.commit()
    answer(from_root)
    assert refusal(lambda: answer(from_below)).sqlstate == WRONG_STATE  # it is cancelled already

    assert states(conn, "root", "younger", "older") == ["UNSCHEDULED", "UNSCHEDULED", "STOPPED"]


def test_cancelling_two_jobs_while_one_is_rescheduled_to_wait_for_the_other_does_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    submit_and_claim(conn, "older")
    lease = submit_and_claim(conn, "younger")
    hold(third, "older")

    cancelling = first.start_blocked(cancel("older", "younger"))
    waiting = second.start_blocked(lambda conn: reschedule(conn, "younger", lease, "older"))
    third.commit()
    answer(cancelling)
    assert refusal(lambda: answer(waiting)).sqlstate == WRONG_STATE

    assert states(conn, "older", "younger") == ["CANCELLING", "CANCELLING"]


def test_two_completions_that_release_the_same_children_do_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    leases = {job_id: submit_and_claim(conn, job_id) for job_id in ("a", "b")}
    submit(conn, "x", p_wait_for=["a", "b"])
    submit(conn, "y", p_wait_for=["b", "a"])
    hold(third, "x")

    one = first.start_blocked(lambda conn: settle(conn, "a", "complete", leases["a"]))
    other = second.start_blocked(lambda conn: settle(conn, "b", "complete", leases["b"]))
    third.commit()

    assert answer(one)["ok"]
    assert answer(other)["ok"]
    assert len(claim(conn, limit=9)) == 2


def test_submissions_with_parents_in_opposite_orders_do_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    submit_many(conn, ["a", "b", "c"])
    hold(third, "b")

    one = first.start_blocked(lambda conn: submit(conn, "x", p_wait_for=["a", "b", "c"]))
    other = second.start_blocked(lambda conn: submit(conn, "y", p_wait_for=["c", "b", "a"]))
    third.commit()

    assert answer(one)["wait_for"] == ["a", "b", "c"]
    assert answer(other)["wait_for"] == ["c", "b", "a"]


def test_submissions_of_the_same_ids_in_opposite_orders_do_not_deadlock(
    conn: Connection, first: Session, second: Session
) -> None:
    names = [f"job-{number}" for number in range(20)]
    first.begin()
    submit_many(first.conn, names)

    other = second.start_blocked(lambda conn: submit_many(conn, reversed(names)))
    first.rollback()

    assert answer(other) == names[::-1]


def test_deletions_in_opposite_orders_do_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    names = ["a", "b", "c"]
    for name in names:
        settle(conn, name, "complete", submit_and_claim(conn, name))
    third.begin()
    third.conn.execute("select from holdfast.archived_jobs where name = 'b' for update")

    def delete(job_ids: list[str]) -> Callable[[Connection], object]:
        return lambda conn: call(conn, "delete_jobs", p_job_ids=job_ids)

    one = first.start_blocked(delete(names))
    other = second.start_blocked(delete(names[::-1]))
    third.commit()

    assert answer(one) == [{"delete_jobs": 3}]
    assert answer(other) == [{"delete_jobs": 0}]


def test_releasing_a_worker_while_it_settles_does_not_deadlock(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    leases = {f"job-{number}": submit_and_claim(conn, f"job-{number}") for number in range(3)}
    backwards = dict(reversed(leases.items()))
    hold(third, "job-1")

    releasing = first.start_blocked(lambda conn: call(conn, "mark_worker_unresponsive", p_worker_id="w"))
    settling = second.start_blocked(settle_all("complete", backwards))
    third.commit()

    assert answer(releasing) == [{"mark_worker_unresponsive": 3}]
    assert all(row["ok"] for row in answer(settling))  # late, but nobody has claimed them since
    assert column(conn, "select count(*) from holdfast.archived_jobs") == [3]
    assert state(conn, "job-0") == "COMPLETED"
