"""Is everything as it should be? Every finding says what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from shlex import quote
from time import time
from typing import TYPE_CHECKING, Any, Final

from holdfast.config import migrate_command
from holdfast.console import views
from holdfast.console.search import count
from holdfast.domain.search import parse
from holdfast.engine.installer import OLDEST_SERVER
from holdfast.engine.status import Status, obstacle
from holdfast.errors import HoldfastError
from holdfast.store.calls import reading, watching
from holdfast.store.steps import Steps, ask

if TYPE_CHECKING:
    from psycopg import Connection

LONG_S: Final = 300.0
"""A transaction that is open longer keeps vacuum from cleaning up behind the engine."""

GLANCE_S: Final = 0.05
"""How long to look for jobs that are set aside, from the latest backwards."""

SILENT_S: Final = 900.0
UNSERVED_S: Final = 300.0
SWEPT_WITHIN_S: Final = 60.0
SKEW_S: Final = 2.0
MOST_DEAD_ROWS: Final = 50_000
NOTIFY_FULL: Final = 0.5
CONNECTIONS_FULL: Final = 0.9


class Level(StrEnum):
    """How bad it is. Only a problem needs doing something."""

    OK = "OK"
    NOTE = "NOTE"
    PROBLEM = "PROBLEM"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    level: Level
    check: str
    says: str
    fix: str | None = None


def _ok(check: str, says: str) -> Finding:
    return Finding(Level.OK, check, says)


def _note(check: str, says: str, fix: str) -> Finding:
    return Finding(Level.NOTE, check, says, fix)


def _problem(check: str, says: str, fix: str) -> Finding:
    return Finding(Level.PROBLEM, check, says, fix)


def of_connection(conn: Connection[Any]) -> list[Finding]:
    """What can be told of one connection: it stands, to which server, and whether something is in between."""
    version = conn.info.server_version // 10000
    found = [_ok("connection", f"{conn.info.dbname} as {conn.info.user}")]
    if version < OLDEST_SERVER:
        found.append(
            _problem("server", f"PostgreSQL {version}", f"move to PostgreSQL {OLDEST_SERVER} or newer")
        )
    row = conn.execute("select pg_backend_pid()").fetchone()
    if row is not None and row[0] != conn.info.backend_pid:
        found.append(
            _note(
                "pooler",
                "a pooler stands between here and the server",
                "nothing, if it is in session mode; in transaction mode workers poll, because signals do not "
                "get through: give workers the address of the server itself if that is too slow",
            )
        )
    else:
        found.append(_ok("pooler", "none in between: signals get through"))
    return found


def of_schema(status: Status) -> Finding:
    """How the installation stands to this release."""
    error = obstacle(status)
    if error is None:
        return _ok("schema", f'"{status.schema}" is at version {status.version}, as this Holdfast wants it')
    ours_is_old = status.state in ("newer", "changed")
    return _problem(
        "schema", str(error), "upgrade this Holdfast" if ours_is_old else migrate_command(status.schema)
    )


def checkup(schema: str, tasks: Collection[str] | None = None) -> Steps[list[Finding]]:
    """Every check of an installation that is current; with the names an app knows, also its tasks.

    A check that cannot be made, for want of a right say, is a note and stops none of the others.
    """
    checks: list[tuple[str, Callable[[], Steps[list[Finding]]]]] = [
        ("server", _server),
        ("vacuum", lambda: _vacuum(schema)),
        ("transactions", _transactions),
        ("workers", lambda: _workers(schema)),
        ("queues", _queues),
        ("jobs", lambda: _jobs(schema)),
        ("tasks", lambda: _tasks(tasks)),
    ]
    found: list[Finding] = []
    for name, check in checks:
        try:
            found += yield from check()
        except HoldfastError as error:
            found.append(_note(name, f"could not be checked: {error}", "run it as a role that may see it"))
    return found


def _server() -> Steps[list[Finding]]:
    before = time()
    facts = yield from ask(watching.server_facts())
    skew = float(facts["now"]) - (before + time()) / 2
    found = [_ok("server", f"PostgreSQL {facts['version']}")]
    if facts["in_recovery"]:
        found.append(
            _problem("server", "this is a standby, which takes no jobs", "name the primary in the address")
        )
    if facts["fsync"] == "off":
        found.append(
            _problem("durability", "fsync is off: a crash of the machine loses jobs", "set fsync = on")
        )
    elif facts["synchronous_commit"] == "off":
        found.append(
            _note(
                "durability",
                "synchronous_commit is off: a crash may lose what was submitted in the last moments",
                "set synchronous_commit = on, if that matters",
            )
        )
    if abs(skew) > SKEW_S:
        found.append(
            _problem(
                "clock",
                f"the database is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine",
                "keep both with NTP; the engine goes by the database's alone, but logs will contradict it",
            )
        )
    else:
        found.append(_ok("clock", f"differs from this one by {abs(skew):.1f} s"))
    used = facts["connections"] / facts["max_connections"]
    if used > CONNECTIONS_FULL:
        found.append(
            _problem(
                "connections",
                f"{facts['connections']} of {facts['max_connections']} are used",
                "end sessions that nobody needs, raise max_connections, or put a pooler in between",
            )
        )
    if facts["notify_queue"] > NOTIFY_FULL:
        found.append(
            _problem(
                "signals",
                f"the queue of signals is {facts['notify_queue']:.0%} full; when it is full, submits fail",
                "find the session that listens within an open transaction, and end it",
            )
        )
    else:
        found.append(_ok("signals", f"the queue of signals is {facts['notify_queue']:.0%} full"))
    if facts["autovacuum"] == "off" or facts["track_counts"] == "off":
        found.append(
            _problem(
                "vacuum",
                "autovacuum does not run: tables grow, and everything becomes slower",
                "set autovacuum = on and track_counts = on",
            )
        )
    return found


def _vacuum(schema: str) -> Steps[list[Finding]]:
    found: list[Finding] = []
    for table in (yield from ask(watching.table_health())):
        said = f"{table.table} has {table.dead_rows:,} dead rows, and {table.live_rows:,} live ones"
        if table.dead_rows > max(MOST_DEAD_ROWS, 2 * table.live_rows):
            found.append(
                _problem(
                    "vacuum",
                    said,
                    f"end long transactions (see below), then: vacuum {schema}.{table.table}; "
                    "if it stays so, give autovacuum more workers",
                )
            )
        else:
            found.append(_ok("vacuum", said))
    return found


def _transactions() -> Steps[list[Finding]]:
    found = [
        _problem(
            "transactions",
            f"session {each.pid} ({each.user} {each.application}) has had a transaction open for "
            f"{_length(each.seconds)}, {each.state}"
            + (", and keeps old rows" if each.keeps_snapshot else ""),
            f"if nobody needs it: select pg_terminate_backend({each.pid}); "
            "idle_in_transaction_session_timeout prevents it",
        )
        for each in (yield from ask(watching.long_transactions(LONG_S)))
    ]
    found += [
        _problem(
            "transactions",
            f'prepared transaction "{name}" has been there for {_length(seconds)}',
            "commit prepared or rollback prepared it",
        )
        for name, seconds in (yield from ask(watching.prepared_transactions()))
        if seconds > LONG_S
    ]
    found += [
        _problem(
            "transactions",
            f'replication slot "{name}" keeps rows of {age:,} transactions and nobody reads from it',
            f"bring its reader back, or: select pg_drop_replication_slot({_sql_text(name)})",
        )
        for name, active, age in (yield from ask(watching.replication_slots()))
        if not active
    ]
    return found or [_ok("transactions", f"none has been open for more than {_length(LONG_S)}")]


def _workers(schema: str) -> Steps[list[Finding]]:
    seen = yield from views.workers()
    lapsed = [
        worker
        for worker in seen.workers
        if worker.lapsed and _since(worker.lease_until, seen.at) > SWEPT_WITHIN_S
    ]
    found = [
        _problem(
            "workers",
            f"{worker.worker_id} is gone with {_jobs_in_words(worker.lapsed)} whose lease lapsed "
            f"{_length(_since(worker.lease_until, seen.at))} ago, and nobody has taken them back",
            "start a worker: every claim takes back what lapsed",
        )
        for worker in lapsed
    ]
    gone = {worker.worker_id for worker in lapsed}
    stuck: dict[str, list[str]] = {}
    for job in (yield from ask(reading.list_stuck_jobs(SILENT_S, 1000))):
        stuck.setdefault(job.assignee_id or "", []).append(job.job_id)
    found += [
        _problem(
            "stuck jobs",
            f"{worker} holds {', '.join(job_ids[:3])}{_and_more(len(job_ids) - 3)}, "
            f"and has not extended the lease for {_length(SILENT_S)} or longer",
            "if that worker is gone, give its jobs to others: "
            f"select {schema}.mark_worker_unresponsive({_sql_text(worker)})",
        )
        for worker, job_ids in stuck.items()
        if worker not in gone
    ]
    lost = [worker for worker in seen.workers if worker.status == "lost" and worker.worker_id not in gone]
    found += [
        _note(
            "workers",
            f"{worker.worker_id} has not said a word for {_length(_since(worker.seen_at, seen.at))}, "
            "and not that it stops",
            f"see whether process {worker.pid} on {worker.host} is there; if not, nothing is to be done",
        )
        for worker in lost[:5]
    ]
    held = sum(worker.jobs for worker in seen.workers)
    return found or [_ok("workers", f"{len(seen.workers)} hold {_jobs_in_words(held)}")]


def _queues() -> Steps[list[Finding]]:
    seen = yield from views.queues(1000)
    return of_queues(seen) or [_ok("queues", f"{len(seen.queues)}, none waits without a worker")]


def of_queues(seen: views.Queues) -> list[Finding]:
    """What there is to say about the lines; nothing if all is well."""
    found: list[Finding] = []
    for queue in seen.queues:
        waits = _since(queue.oldest_due_at, seen.at)
        more = "+" if seen.is_capped(queue.due_jobs + queue.delayed_jobs) else ""
        due = f"{queue.due_jobs:,}{more}"
        if queue.paused_at is not None:
            found.append(
                _note(
                    "queues",
                    f'"{queue.queue}" has been paused for {_length(_since(queue.paused_at, seen.at))}, '
                    f"with {due} due",
                    f"holdfast queues resume {quote(queue.queue)}, when it may go on",
                )
            )
        elif waits > UNSERVED_S and not queue.held_jobs:
            found.append(
                _problem(
                    "queues",
                    f'nobody works on "{queue.queue}": {due} due, the first for {_length(waits)}',
                    f"start a worker for it: holdfast worker MODULE:APP --queue {quote(f'{queue.queue}=10')}",
                )
            )
        if queue.dead_jobs:
            more = "+" if seen.is_capped(queue.dead_jobs) else ""
            found.append(
                _note(
                    "dead letters",
                    f'{queue.dead_jobs:,}{more} in "{queue.queue}"',
                    f"holdfast dead list --queue {quote(queue.queue)}, then retry or delete them",
                )
            )
    return found


def _jobs(schema: str) -> Steps[list[Finding]]:
    found: list[Finding] = []
    # One walk for both, as long as there is neither, and not a long one: somebody looks on.
    if not (yield from count(parse("status:CRASH_CONCERN,EXPIRED"), 1, patience_s=GLANCE_S)).jobs:
        return [_ok("jobs", "none set aside, none expired")]
    concern = yield from count(parse("status:CRASH_CONCERN"))
    if concern.jobs:
        found.append(
            _problem(
                "crash concern",
                f"{_jobs_in_words(concern.jobs)} set aside, because every worker that ran them was lost",
                "holdfast jobs list status:CRASH_CONCERN; once it is mended: "
                f"select {schema}.clear_crash_concern('JOB', 'YOU')",
            )
        )
    expired = yield from count(parse("status:EXPIRED"))
    if expired.jobs:
        found.append(
            _note(
                "expired",
                f"{_jobs_in_words(expired.jobs)} expired before they ran",
                "holdfast jobs cancel -q status:EXPIRED, or let upkeep cancel them after a week",
            )
        )
    return found


def _tasks(known: Collection[str] | None) -> Steps[list[Finding]]:
    wanted = yield from ask(watching.live_tasks())
    if known is None:
        return [_note("tasks", "not checked", "name your app: holdfast doctor MODULE:APP")] if wanted else []
    found = [
        _problem(
            "tasks",
            f'{_jobs_in_words(jobs)} in line for "{task}", which the app does not know',
            "import its module where the app is; if it was renamed, add its old name to the aliases",
        )
        for task, jobs in wanted.items()
        if task not in known
    ]
    return found or [_ok("tasks", f"the app knows all {len(wanted)} that are in line")]


def _since(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else (now - moment).total_seconds()


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _length(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _jobs_in_words(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"
