"""What is written down for a stream by itself: outcomes nobody knows the fate of, jobs never delivered."""

from __future__ import annotations

import logging
from typing import Final

from holdfast.domain.outcome import Undelivered, Verdict
from holdfast.queue.book import Entry, keeps_slot
from holdfast.queue.stream import OpenStream
from holdfast.store import Settlement
from holdfast.store.calls.settling import settle_jobs
from holdfast.store.steps import Steps, ask

logger: Final = logging.getLogger("holdfast.queue")

MOST: Final = 1000
"""The largest call; more is written down by several."""

HAND_BACK_S: Final = 3.0


def report(stream: OpenStream, reports: list[Settlement], timeout_s: float) -> Steps[None]:
    """Write outcomes down by themselves; what a lost call wrote already is answered as it was."""
    verdicts = yield from ask(settle_jobs(reports, stream_id=stream.terms.stream_id, timeout_s=timeout_s))
    stream.reported(reports, [verdict for verdict in verdicts if not verdict.ok])


def report_last(stream: OpenStream) -> Steps[bool]:
    """Write down what a stream that ends still has to say; False if some could not be."""
    is_told = True
    while reports := stream.take_reports(MOST):
        try:
            yield from report(stream, reports, HAND_BACK_S)
        except Exception as error:
            is_told = False
            logger.warning(
                "%d outcomes of %s could not be written down (%s); those jobs will run again",
                len(reports),
                stream.terms.assignee_id,
                error,
            )
    return is_told


def hand_back(stream: OpenStream, entries: list[Entry]) -> Steps[list[Entry] | None]:
    """Hand back jobs that were not delivered: those whose slots are free now, None if that did not work."""
    terms = stream.terms
    settlements: list[Settlement] = [
        (
            entry.job.id,
            entry.lease_id,
            Undelivered(_why(stream, entry), to_worker_stream=terms.for_worker),
        )
        for entry in entries
    ]
    verdicts: list[Verdict] = []
    try:
        for start in range(0, len(settlements), MOST):
            some = settlements[start : start + MOST]
            verdicts += yield from ask(settle_jobs(some, stream_id=terms.stream_id, timeout_s=HAND_BACK_S))
    except Exception as error:
        logger.warning(
            "%d jobs of %s could not be handed back (%s); %s",
            len(entries),
            terms.assignee_id,
            error,
            "they come back when their leases end" if stream.is_ending else "trying again",
        )
        return None
    return [
        entry
        for entry, verdict in zip(entries, verdicts, strict=True)
        if verdict.ok or not keeps_slot(verdict)
    ]


def _why(stream: OpenStream, entry: Entry) -> str:
    """Why a job was not delivered, for whoever looks at it later."""
    assignee_id = stream.terms.assignee_id
    if stream.is_ending or stream.is_draining:
        return f"not delivered: the stream of {assignee_id} ended before it could hand the job over"
    what = "cancelled" if entry.cancelling else "its lease ended"
    return f"not delivered: {what} while it waited for the reader of {assignee_id}"
