"""Both queues have the same verbs with the same arguments and the same promises."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from holdfast import Queue, SyncQueue

OWN = {"open", "close", "stream_jobs"}


def verbs(face: type) -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in inspect.getmembers(face, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_queues_have_the_same_verbs_with_the_same_arguments() -> None:
    ours, theirs = verbs(Queue), verbs(SyncQueue)

    assert {
        name: str(inspect.signature(each)).replace("SyncStream", "Stream") for name, each in ours.items()
    } == {name: str(inspect.signature(each)).replace("SyncStream", "Stream") for name, each in theirs.items()}


def test_both_queues_make_the_same_promises() -> None:
    ours, theirs = verbs(Queue), verbs(SyncQueue)

    assert [name for name in ours if not ours[name].__doc__] == []
    assert [name for name in ours if name not in OWN and ours[name].__doc__ != theirs[name].__doc__] == []


def test_every_verb_of_the_asynchronous_queue_is_a_coroutine_but_the_stream() -> None:
    assert {name for name, each in verbs(Queue).items() if not inspect.iscoroutinefunction(each)} == {
        "stream_jobs"
    }
    assert not [name for name, each in verbs(SyncQueue).items() if inspect.iscoroutinefunction(each)]


def test_the_signatures_are_those_of_the_contract() -> None:
    shown = {
        name: list(inspect.signature(method).parameters)[1:] for name, method in verbs(SyncQueue).items()
    }

    assert shown["complete_job"] == ["job_id", "result", "lease_id", "worker_id"]
    assert shown["fail_job"] == ["job_id", "error", "delay", "permanent", "lease_id", "worker_id"]
    assert shown["cancel_jobs"] == shown["delete_jobs"] == ["tags", "job_ids"]
    assert shown["claim_jobs"] == ["worker_id", "queues", "tags", "limit", "lease"]
    assert shown["acquire_next"] == ["queue", "worker_id", "lock_duration"]
    assert shown["requeue_job"] == ["job_id", "available_at", "error", "lease_id", "worker_id"]
    assert shown["reschedule_job"] == ["job_id", "available_at", "lease_id", "worker_id"]
    assert shown["retry_later"] == ["job_id", "available_at"]
    assert shown["acquire_resource"] == ["key", "job_id", "worker_id"]
