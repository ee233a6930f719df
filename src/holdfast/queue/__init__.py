"""The queue by hand: every verb, for people who write their own workers, services or tools.

`Queue` is for asyncio, `SyncQueue` blocks and may be shared by threads; both have the same verbs. Read values
first (what travels), then verbs, endings and settling (what is asked), then queue.
"""

from holdfast.queue.queue import Queue
from holdfast.queue.sync_queue import SyncQueue
from holdfast.queue.values import Job, JobStats, JobStatus, Verdict

__all__ = ["Job", "JobStats", "JobStatus", "Queue", "SyncQueue", "Verdict"]
