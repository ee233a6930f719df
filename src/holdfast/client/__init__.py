"""Asking for work, and hearing of it: enqueue one or many, in your own transaction; handles and results.

Read client first, then handle and waiting (what became of a job), borrowing and transactions (other people's
connections), stores (our own).
"""

from holdfast.client.client import Client
from holdfast.client.handle import FoundJob, JobHandle
from holdfast.client.jobs import Jobs
from holdfast.client.resources import Resources
from holdfast.client.stores import Stores
from holdfast.client.transactions import Transaction

__all__ = ["Client", "FoundJob", "JobHandle", "Jobs", "Resources", "Stores", "Transaction"]
