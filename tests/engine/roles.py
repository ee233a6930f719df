"""Who may do what, as a table, and what the catalog says about it."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors as pg

from tests.engine.sql import column, rows

Connection = psycopg.Connection[Any]

ROLES = {
    "P": "holdfast_producer",
    "W": "holdfast_worker",
    "V": "holdfast_viewer",
    "A": "holdfast_admin",
}

# By the letters above. A stranger, who is in none of the roles, may do nothing. A function or relation that
# is not listed fails the tests: decide who may, and write it down. Helpers (_…) belong to the owner alone.
MAY_CALL = {
    "submit_job": "PWA",
    "submit_jobs": "PWA",
    "submit_plain_job": "PWA",
    "normalize_wait_for": "PWA",
    "get_work": "WA",
    "claim_jobs": "WA",
    "claim_waiting_job": "WA",
    "next_due": "WVA",
    "jobs_of_stream": "WA",
    "settle_jobs": "WA",
    "settle_and_claim": "WA",
    "extend_lease": "WA",
    "extend_leases": "WA",
    "reschedule_job": "WA",
    "complete_job": "WA",
    "fail_job": "WA",
    "requeue_job": "WA",
    "retry_later": "WA",
    "release_job": "WA",
    "stop_job": "WA",
    "stop_job_with_retry": "WA",
    "mark_job_unknown_stopped": "WA",
    "acknowledge_cancellation": "WA",
    "lapse_leases": "WA",
    "report_progress": "WA",
    "acquire_resources": "WA",
    "release_resources": "WA",
    "resource_capacity": "WVA",
    "is_notify_enabled": "WVA",
    "is_trace_enabled": "WVA",
    "trace_level": "WVA",
    "crash_concern_threshold": "WVA",
    "report_worker": "WA",
    "upkeep": "WA",
    "archive_retention": "WVA",
    "set_archive_retention": "A",
    "get_history": "VA",
    "get_job": "VA",
    "get_job_stats": "VA",
    "get_queue_stats": "VA",
    "held_jobs": "VA",
    "tagged_jobs": "VA",
    "list_waiting_jobs": "VA",
    "count_ended_jobs": "VA",
    "list_stuck_jobs": "VA",
    "list_dead_jobs": "VA",
    "complete_unheld_job": "A",
    "reschedule_unheld_job": "A",
    "cancel_job": "A",
    "cancel_jobs": "A",
    "cancel_expired_jobs": "A",
    "revive_job": "A",
    "clear_crash_concern": "A",
    "mark_worker_unresponsive": "A",
    "reset_running_jobs": "A",
    "pause_queue": "A",
    "resume_queue": "A",
    "set_queue_limit": "A",
    "delete_jobs": "A",
    "cleanup_expired_jobs": "A",
    "set_notify": "A",
    "set_trace": "A",
    "set_trace_level": "A",
    "set_crash_concern_threshold": "A",
    "set_resource_capacity": "A",
    # A view runs the functions it uses as its reader; this one is all that the views use.
    "_clock": "VA",
}

MAY_READ = {
    "jobs_with_status": "VA",
    "jobs_friendly_status": "VA",
    "jobs_archive": "VA",
    "job_details": "VA",
    "jobs_trace": "VA",
    "queues": "VA",
    "listeners": "",
    "claims": "",
    "resources": "VA",
    "holds": "VA",
    "settings": "VA",
    "workers": "VA",
    "history": "VA",
    # So that whoever connects can tell whether the installation fits its release.
    "migrations": "PWVA",
    "installation": "PWVA",
    "jobs": "",
    "archived_jobs": "",
    "archived_jobs_0": "",
    "archived_jobs_rest": "",
    "job_names": "",
    "job_waits": "",
    "job_errors": "",
    "upkeep_progress": "",
}

TABLE_RIGHTS = ("select", "insert", "update", "delete", "truncate", "references", "trigger")
SCHEMA_RIGHTS = ("usage", "create")
SEQUENCE_RIGHTS = ("usage", "select", "update")

_FUNCTIONS = """
select
  routine.proname as name,
  format('select * from holdfast.%I(%s)', routine.proname, (
    select string_agg(format('null::%s', format_type(argument.type, null)), ', ' order by argument.place)
    from unnest(routine.proargtypes) with ordinality as argument (type, place)
  )) as call
from pg_proc routine
where routine.pronamespace = 'holdfast'::regnamespace and routine.prorettype <> 'trigger'::regtype
order by routine.proname
"""

_CALLABLE = """
select routine.proname
from pg_proc routine
where routine.pronamespace = 'holdfast'::regnamespace
  and has_function_privilege(%s, routine.oid, 'execute')
"""

# A function without an access list has the default one, which lets everybody call it.
_GRANTED = """
select object.name, granted.grantee, granted.is_grantable and granted.grantee <> object.owner as passed_on
from (
  select proname, coalesce(proacl, acldefault('f', proowner)), proowner
  from pg_proc where pronamespace = 'holdfast'::regnamespace
  union all
  select relname, relacl, relowner from pg_class where relnamespace = 'holdfast'::regnamespace
  union all
  select nspname, nspacl, nspowner from pg_namespace where nspname = 'holdfast'
) as object (name, acl, owner)
cross join lateral aclexplode(object.acl) as granted
"""


def functions(conn: Connection) -> dict[str, str]:
    """Each function of the schema, with a call of it in which every argument is null."""
    with conn.transaction():
        conn.execute("set local search_path = pg_catalog")  # types are named with their schema then
        return {row["name"]: row["call"] for row in rows(conn, _FUNCTIONS)}


def relations(conn: Connection, kinds: str = "rvmfp") -> list[str]:
    """The tables and views of the schema, or with "S" its sequences."""
    query = (
        "select relname from pg_class where relnamespace = 'holdfast'::regnamespace"
        " and relkind = any (string_to_array(%s, null)) order by relname"
    )
    return column(conn, query, kinds)


def callable_by(conn: Connection, role: str) -> set[str]:
    return set(column(conn, _CALLABLE, role))


def rights(conn: Connection, role: str) -> set[tuple[str, str]]:
    """What a role may do to the schema (named ""), its tables, views and sequences."""
    found = {
        (relation, right)
        for kind, kinds, names in (("table", "rvmfp", TABLE_RIGHTS), ("sequence", "S", SEQUENCE_RIGHTS))
        for relation in relations(conn, kinds)
        for right in names
        if _has(conn, kind, role, f"holdfast.{relation}", right)
    }
    return found | {
        ("", right) for right in ("usage", "create") if _has(conn, "schema", role, "holdfast", right)
    }


def _has(conn: Connection, kind: str, role: str, name: str, right: str) -> bool:
    return bool(column(conn, f"select has_{kind}_privilege(%s, %s, %s)", role, name, right)[0])


def grants(conn: Connection) -> list[dict[str, Any]]:
    """Every right that somebody was given: on what, to whom (0: public), and whether it can be passed on."""
    return rows(conn, _GRANTED)


def contents(conn: Connection) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table."""
    return {table: rows(conn, f"select * from holdfast.{table} order by 1") for table in relations(conn, "r")}


def denied(conn: Connection, statement: str) -> bool:
    """Whether a statement fails for want of a right; any other error means that it was tried."""
    try:
        conn.execute(statement.encode())
    except pg.InsufficientPrivilege:
        return True
    except psycopg.Error:
        return False
    return False
