"""Every call reads only what it is about, however many jobs there are; see `crowd` for what it must not read."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.conftest import Connect
from tests.databases import Databases
from tests.engine import crowd
from tests.engine.crowd.calls import SINGLE, Call, batches
from tests.engine.plans import Plans, Reading

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TIMES = 7  # the first call plans; from the sixth on a plan for any parameters may take over
CALLS = SINGLE | batches(100)
LARGE = batches(1000)


@pytest.fixture(scope="module")
def crowded(databases: Databases) -> Generator[str]:
    """The address of a database with the crowd in it. Tests leave the crowd as they found it."""
    name = databases.create()
    crowd.fill(databases.dsn(name))
    yield databases.dsn(name)
    databases.drop_later(name)


@pytest.fixture
def plans(crowded: str, connect: Connect) -> Plans:
    return Plans(connect(crowded))


def readings(plans: Plans, call: Call, times: int = TIMES) -> list[Reading]:
    """What the call reads when it is made again and again, without the first, which also reads catalogs."""
    parameters = call.before(plans.conn)
    found: list[Reading] = []
    for _ in range(times):
        with plans.undone():
            found.append(plans.read(call.sql, *parameters))
    return found[1:]


def excess(reading: Reading, jobs: int) -> list[str]:
    """What the reading says too much for a call about so many jobs."""
    limits = {"fetched": 10 * jobs + 10, "blocks": 80 * jobs + 800, "sorted": 4 * jobs + 10}
    found = {"fetched": sum(reading.fetched.values()), "blocks": reading.blocks, "sorted": reading.sorted}
    said = [f"{name}: {found[name]:.0f} > {limit}" for name, limit in limits.items() if found[name] > limit]
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
    assert [excess(reading, call.jobs) for reading in found] == [[]] * len(found)
    with open("/tmp/w/probe.txt", "a") as f:
        w = max(found, key=lambda r: r.blocks)
        print(f"{name:38s} {statistics:6s} n={call.jobs:4d} blocks {w.blocks:6d} fetched {sum(w.fetched.values()):6d} vain {w.in_vain:8.0f} sorted {w.sorted:8.0f} widest {w.widest:8.0f} scanned {set(w.scanned)}", file=f)


@pytest.mark.parametrize("name", LARGE)
def test_a_batch_ten_times_as_large_reads_ten_times_as_much(plans: Plans, name: str) -> None:
    call = LARGE[name]
    with plans.undone():
        found = readings(plans, call, times=2)
    assert [excess(reading, call.jobs) for reading in found] == [[]] * len(found)
