"""Who may do what: every function and every relation of the schema, for each role and for a stranger."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg
from psycopg.sql import SQL, Identifier

from holdfast.engine import installer
from tests.conftest import Connect
from tests.databases import Databases
from tests.engine.roles import ROLES, STRANGER, As, members

Connection = psycopg.Connection[Any]

# P: holdfast_producer, W: holdfast_worker, V: holdfast_viewer, A: holdfast_admin. A stranger, who is in none of
# them, may do nothing. A function or relation that is not listed fails the tests: decide, and write it down.
MAY_CALL = {
    "submit_job": "PWA",
    "submit_jobs": "PWA",
    "normalize_wait_for": "PWA",
    "get_work": "WA",
    "claim_jobs": "WA",
    "next_due": "WVA",
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
    "get_job": "VA",
    "get_job_stats": "VA",
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
    "resources": "VA",
    "holds": "VA",
    "settings": "VA",
    # So that whoever connects can tell whether the installation fits its release.
    "migrations": "PWVA",
    "installation": "PWVA",
    "jobs": "",
    "archived_jobs": "",
    "job_names": "",
    "job_waits": "",
    "job_errors": "",
}
