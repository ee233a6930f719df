"""Tasks: functions with a name in the database, typed from the call to the result.

Read task first (what users hold in their hands), then defining (how it comes about), calls and codec (how
arguments travel), options, naming, registry, and context (what a handler can ask).
"""

from holdfast.tasks.context import (
    JobContext,
    current_job,
    current_job_or_none,
    reset_current_job,
    running,
    set_current_job,
)
from holdfast.tasks.registry import Registry
from holdfast.tasks.task import (
    AsyncTask,
    JobSpec,
    SyncTask,
    Task,
    decode_arguments,
    decode_result,
    encode_result,
)

__all__ = [
    "AsyncTask",
    "JobContext",
    "JobSpec",
    "Registry",
    "SyncTask",
    "Task",
    "current_job",
    "current_job_or_none",
    "decode_arguments",
    "decode_result",
    "encode_result",
    "reset_current_job",
    "running",
    "set_current_job",
]
