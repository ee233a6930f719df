"""What people want to see beside jobs: who works, who holds what, what happened, how the server is doing.

Asked of what the role of readers may read, and of the server's own catalogs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdfast.store import arguments
from holdfast.store.call import Call, Rows, Statement, only_value

_TRACE: Final = Statement(
    "trace_of",
    "select * from (select trace_id, event_type, worker_id, event_at, input_data, output_data "
    "from {schema}.jobs_trace where job_id = %s::text order by trace_id desc limit %s::integer) as latest "
    "order by trace_id",
)

LOST_S: Final = 30.0
"""A worker that says it is there every ten seconds, and has not for so long, is lost."""

_WORKERS: Final = Statement(
    "list_workers",
    "with held as (select assignee_id, count(*) as jobs, "
    "count(*) filter (where state = 'CANCELLING') as cancelling, "
    "count(*) filter (where lease_expires_at <= {schema}._clock()) as lapsed, "
    "array_agg(distinct next_need) as queues, min(assigned_at) as oldest_at, "
    "max(greatest(assigned_at, extended_at)) as seen_at, min(lease_expires_at) as lease_until, "
    "(array_agg(job_id order by assigned_at, number))[1:5] as job_ids "
    "from (select * from {schema}.jobs_with_status "
    "where number = any (array(select {schema}.held_jobs())) "
    "and state in ('RUNNING', 'CANCELLING')) as job group by assignee_id), "
    "beating as (select * from {schema}.workers where stopped_at is null "
    "or worker_id in (select assignee_id from held)) "
    "select coalesce(worker_id, assignee_id), case "
    "when stopped_at is null "
    "and beating.seen_at <= {schema}._clock() - %s::double precision * interval '1 second' "
    "then 'lost' when jobs is null then 'idle' else 'busy' end, "
    "coalesce(jobs, 0), coalesce(cancelling, 0), coalesce(lapsed, 0), coalesce(beating.queues, held.queues), "
    "oldest_at, greatest(beating.seen_at, held.seen_at), lease_until, coalesce(job_ids, '{}'), "
    "host, pid, version, capacity, started_at "
    "from held full join beating on worker_id = assignee_id order by jobs is null, 1 limit %s::integer",
)

_HOLDS: Final = Statement(
    "list_holds",
    "select hold.kind, hold.key, job.job_id, job.assignee_id, hold.held_since from ("
    "select * from {schema}.holds order by kind, key, slot limit %s::integer) as hold "
    "left join lateral (select job_id, assignee_id from {schema}.jobs_with_status "
    "where number = hold.job_id offset 0) as job on true order by hold.kind, hold.key, hold.slot",
)

_CAPACITIES: Final = Statement(
    "list_capacities",
    "select key, capacity from {schema}.resources where capacity <> 1 order by key limit 10000",
)

_WAITERS: Final = Statement(
    "count_waiters",
    "select kind, key, count(*) from ("
    "select state, singleton_key, resource_keys from {schema}.jobs_with_status "
    "order by number desc limit 25000) as job cross join lateral ("
    "select 'singleton', job.singleton_key where job.singleton_key is not null "
    "union all select 'resource', unnest(job.resource_keys)) as wanted (kind, key) "
    "where job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY') "
    "group by kind, key order by count(*) desc, kind, key limit %s::integer",
)

_TASKS: Final = Statement(
    "live_tasks",
    "select task, count(*) from (select task, state from {schema}.jobs_with_status order by number desc "
    "limit 25000) as job where state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY') "
    "and task is not null group by task order by count(*) desc, task",
)

_ARCHIVE_SIZE: Final = Statement(
    "archive_size",
    "select coalesce(sum(greatest(part.reltuples, 0)), 0)::bigint from pg_inherits "
    "join pg_class part on part.oid = inhrelid where inhparent = '{schema}.archived_jobs'::regclass",
)

_CLOCK: Final = Statement("database_clock", "select {schema}._clock()")

_SERVER: Final = Statement(
    "server_facts",
    "select jsonb_build_object("
    "'version', current_setting('server_version'), "
    "'now', extract(epoch from clock_timestamp()), 'in_recovery', pg_is_in_recovery(), "
    "'autovacuum', current_setting('autovacuum'), 'track_counts', current_setting('track_counts'), "
    "'synchronous_commit', current_setting('synchronous_commit'), 'fsync', current_setting('fsync'), "
    "'max_connections', current_setting('max_connections')::int, "
    "'connections', (select count(*) from pg_stat_activity), "
    "'notify_queue', pg_notification_queue_usage())",
)

_TABLES: Final = Statement(
    "table_health",
    "select relname, n_live_tup, n_dead_tup, greatest(last_vacuum, last_autovacuum), "
    "greatest(last_analyze, last_autoanalyze) from pg_stat_all_tables "
    "where relid = '{schema}.jobs'::regclass or relid in ("
    "select inhrelid from pg_inherits where inhparent = '{schema}.archived_jobs'::regclass) order by relname",
)

_TRANSACTIONS: Final = Statement(
    "long_transactions",
    "select pid, coalesce(usename, ''), coalesce(application_name, ''), coalesce(state, ''), "
    "extract(epoch from clock_timestamp() - xact_start)::float8, backend_xmin is not null "
    "from pg_stat_activity where xact_start < clock_timestamp() - %s::double precision * interval '1 second' "
    "and pid <> pg_backend_pid() and backend_type = 'client backend' order by xact_start limit 20",
)

_PREPARED: Final = Statement(
    "prepared_transactions",
    "select gid, extract(epoch from clock_timestamp() - prepared)::float8 from pg_prepared_xacts "
    "where database = current_database() order by prepared limit 20",
)

_SLOTS: Final = Statement(
    "replication_slots",
    "select slot_name, active, greatest(age(xmin), age(catalog_xmin)) from pg_replication_slots "
    "where xmin is not null or catalog_xmin is not null order by 3 desc limit 20",
)


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One thing that happened to a job."""

    trace_id: int
    event: str
    worker_id: str | None
    at: datetime
    given: Mapping[str, Any]
    became: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker that says it is there, or that holds jobs.

    `status`: busy, idle, or lost, if it said so once and is silent now. Whoever claims by hand says nothing
    of itself: it is busy while it holds jobs, and has no host, capacity or start.
    """

    worker_id: str
    status: str
    jobs: int
    cancelling: int
    lapsed: int
    queues: tuple[str, ...]
    """Those it serves, or for one that says nothing those of its jobs."""
    oldest_at: datetime | None
    """Since when it holds the job it has held longest."""
    seen_at: datetime
    """Its last beat, claim or extension of a lease."""
    lease_until: datetime | None
    job_ids: tuple[str, ...]
    """The first few, those held longest first."""
    host: str | None
    pid: int | None
    version: str | None
    capacity: int | None
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A singleton key or a resource in the hands of a job."""

    kind: str
    key: str
    job_id: str | None
    worker_id: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class TableHealth:
    """What the server has counted of a table."""

    table: str
    live_rows: int
    dead_rows: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


@dataclass(frozen=True, slots=True)
class LongTransaction:
    """A session that has kept a transaction open for long."""

    pid: int
    user: str
    application: str
    state: str
    seconds: float
    keeps_snapshot: bool


def trace_of(job_id: str, limit: int, *, timeout_s: float | None = None) -> Call[list[TraceEvent]]:
    """The latest events of a job, in order. Index: jobs_trace_by_job."""
    parameters = (arguments.text(job_id, "job_id"), arguments.whole(limit, "limit"))
    return Call(_TRACE, parameters, _events, idempotent=True, timeout_s=timeout_s)


def list_workers(limit: int, lost_s: float, *, timeout_s: float | None = None) -> Call[list[WorkerRow]]:
    """The workers that beat or hold jobs; lost are those silent for so long. Index: those of held_jobs."""
    parameters = (arguments.duration(lost_s, "lost_s", positive=True), arguments.whole(limit, "limit"))
    return Call(_WORKERS, parameters, _workers, idempotent=True, timeout_s=timeout_s)


def list_holds(limit: int, *, timeout_s: float | None = None) -> Call[list[HoldRow]]:
    """Who holds which key."""
    parameters = (arguments.whole(limit, "limit"),)
    return Call(
        _HOLDS, parameters, lambda rows: [HoldRow(*row) for row in rows], idempotent=True, timeout_s=timeout_s
    )


def list_capacities(*, timeout_s: float | None = None) -> Call[dict[str, int]]:
    """The resources that have another capacity than one."""
    return Call(_CAPACITIES, (), _mapping, idempotent=True, timeout_s=timeout_s)


def count_waiters(limit: int, *, timeout_s: float | None = None) -> Call[dict[tuple[str, str], int]]:
    """How many of the latest 25,000 live jobs wait with a key, by kind and key, the most wanted first."""
    parameters = (arguments.whole(limit, "limit"),)
    return Call(_WAITERS, parameters, _waiters, idempotent=True, timeout_s=timeout_s)


def live_tasks(*, timeout_s: float | None = None) -> Call[dict[str, int]]:
    """The tasks that the latest 25,000 live jobs ask for, and how many wait for each."""
    return Call(_TASKS, (), _mapping, idempotent=True, timeout_s=timeout_s)


def archive_size(*, timeout_s: float | None = None) -> Call[int]:
    """About how many jobs the archive has, as of its last vacuum or analyze."""
    return Call(_ARCHIVE_SIZE, (), only_value, idempotent=True, timeout_s=timeout_s)


def database_clock(*, timeout_s: float | None = None) -> Call[datetime]:
    """What the engine takes for now."""
    return Call(_CLOCK, (), only_value, idempotent=True, timeout_s=timeout_s)


def server_facts(*, timeout_s: float | None = None) -> Call[dict[str, Any]]:
    """What a server says about itself."""
    return Call(_SERVER, (), only_value, idempotent=True, timeout_s=timeout_s)


def table_health(*, timeout_s: float | None = None) -> Call[list[TableHealth]]:
    """How far vacuum is behind, for the tables that grow."""
    return Call(
        _TABLES, (), lambda rows: [TableHealth(*row) for row in rows], idempotent=True, timeout_s=timeout_s
    )


def long_transactions(seconds: float, *, timeout_s: float | None = None) -> Call[list[LongTransaction]]:
    """Transactions that have been open for so long, the oldest first."""
    parameters = (arguments.duration(seconds, "seconds", positive=True),)
    return Call(
        _TRANSACTIONS,
        parameters,
        lambda rows: [LongTransaction(*row) for row in rows],
        idempotent=True,
        timeout_s=timeout_s,
    )


def prepared_transactions(*, timeout_s: float | None = None) -> Call[list[tuple[str, float]]]:
    """Transactions somebody prepared and never ended, and for how many seconds."""
    return Call(
        _PREPARED, (), lambda rows: [(row[0], row[1]) for row in rows], idempotent=True, timeout_s=timeout_s
    )


def replication_slots(*, timeout_s: float | None = None) -> Call[list[tuple[str, bool, int]]]:
    """Slots that keep old rows, whether somebody reads from them, and how many transactions back."""
    return Call(
        _SLOTS,
        (),
        lambda rows: [(row[0], row[1], row[2]) for row in rows],
        idempotent=True,
        timeout_s=timeout_s,
    )


def _events(answer: Rows) -> list[TraceEvent]:
    return [TraceEvent(*row) for row in answer]


def _workers(answer: Rows) -> list[WorkerRow]:
    found: list[WorkerRow] = []
    for *first, queues, oldest, seen, lease, job_ids, host, pid, version, capacity, started in answer:
        name, status, jobs, cancelling, lapsed = first
        counts = (jobs, cancelling, lapsed)
        since = (oldest, seen, lease)
        itself = (host, pid, version, capacity, started)
        found.append(WorkerRow(name, status, *counts, tuple(queues), *since, tuple(job_ids), *itself))
    return found


def _mapping(answer: Rows) -> dict[str, int]:
    return {row[0]: row[1] for row in answer}


def _waiters(answer: Rows) -> dict[tuple[str, str], int]:
    return {(row[0], row[1]): row[2] for row in answer}
