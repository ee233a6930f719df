"""The only Python that speaks to PostgreSQL for jobs: every function of the engine, typed, within a deadline.

`Store` is for asyncio, `SyncStore` blocks and may be shared by threads; both have one method for each public
function of the engine. Read call and calls/ first (what is asked), then store (how it is asked), then
sqlstates and trial (what happens when the answer is an error, or none).
"""

from holdfast.store.call import Call
from holdfast.store.sqlstates import Action, action_for
from holdfast.store.store import Store, StoreOnConnection
from holdfast.store.sync_store import SyncStore, SyncStoreOnConnection
from holdfast.store.values import (
    Attendance,
    CancelledJobs,
    Extension,
    HistoryStep,
    Hold,
    JobStats,
    LeasedJob,
    QueueStats,
    RescheduledJob,
    SettledAndClaimed,
    Settlement,
    SubmittedJob,
)

__all__ = [
    "Action",
    "Attendance",
    "Call",
    "CancelledJobs",
    "Extension",
    "HistoryStep",
    "Hold",
    "JobStats",
    "LeasedJob",
    "QueueStats",
    "RescheduledJob",
    "SettledAndClaimed",
    "Settlement",
    "Store",
    "StoreOnConnection",
    "SubmittedJob",
    "SyncStore",
    "SyncStoreOnConnection",
    "action_for",
]
