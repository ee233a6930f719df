"""All streams of one queue: what each holds, who feeds them, and who keeps their leases."""

from __future__ import annotations

from collections.abc import Iterable


class Streams:
    """The streams of one open queue. Thread-safe; every method but `close` returns at once."""

    def owner_of(self, job_id: str) -> int | None:
        """The id of the stream of this queue that holds the job, to be named when it is settled."""
        raise NotImplementedError

    def settled(self, job_ids: Iterable[str]) -> None:
        """Jobs that were ended or handed back through this queue: their slots are free."""
        raise NotImplementedError

    def forfeited(self, job_id: str) -> None:
        """A job acknowledged as not executing: it is gone, and its slot with it."""
        raise NotImplementedError

    def cancelling(self, job_ids: Iterable[str]) -> None:
        """Jobs that were cancelled through this queue: those not delivered yet never will be."""
        raise NotImplementedError

    def close(self) -> None:
        """End every stream, hand back what was not delivered, stop the threads. Blocks, a few seconds at most."""
        raise NotImplementedError
