"""The third face of a stream, for scenarios that are about streams of any kind: over HTTP, from a server."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any, cast
from unittest import mock

from holdfast import Job, JobStatus, SyncQueue, Verdict
from holdfast.errors import DatabaseUnavailable, HoldfastError, JobNotFound, LeaseLost, WrongState
from holdfast.queue.stream import OpenStream
from holdfast.web.remote import sessions
from holdfast.web.settings import WebSettings
from tests.queue.streaming import PATIENCE_S, Face, Reader, in_thread
from tests.web.serving import Running
from tests.web.streams.client import Api, Connection, Line, Listener

SHORTEST_S = 3.0
"""A busy machine may need a second to carry a beat."""

ERRORS: dict[str, type[HoldfastError]] = {
    "not_found": JobNotFound,
    "lease_lost": LeaseLost,
    "wrong_state": WrongState,
}


class RemoteQueue:
    """A server and a worker that knows it by its address: what it holds it settles over HTTP, by its leases.

    The verbs that no worker has are those of a queue beside it.
    """

    def __init__(
        self, dsn: str, ack: bool, leases: dict[str, str], *, lease: Any = 30.0, poll: Any = 5.0
    ) -> None:
        self._closing = ExitStack()
        self.beside = self._closing.enter_context(SyncQueue(dsn, poll=poll))
        self.running = Running(WebSettings(dsn=dsn, port=0))
        self._closing.callback(self.running.stop)
        self.api = Api(self.running.address)
        self.lease = lease
        self.ack = ack
        self.leases = leases
        with mock.patch.object(sessions, "POLL_S", float(poll)):
            self.api.said("/api/jobs/settle", {"results": []})  # from here on it has its streams

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beside, name)

    def close(self) -> None:
        self._closing.close()

    def complete_job(self, job_id: str, result: Any = None, *, lease_id: str | None = None) -> None:
        self._settle(job_id, lease_id, outcome="complete", result=result)

    def complete_jobs(self, told: Iterable[tuple[str, Any] | tuple[str, Any, str]]) -> list[Verdict]:
        return self._settle_all(told, "complete", "result")

    def fail_job(
        self, job_id: str, error: str, *, delay: float = 0, permanent: bool = False, lease_id: Any = None
    ) -> None:
        how = {"outcome": "permanent"} if permanent else {"outcome": "fail", "delay": delay}
        self._settle(job_id, lease_id, error=error, **how)

    def fail_jobs(self, told: Iterable[tuple[str, str]]) -> list[Verdict]:
        return self._settle_all(told, "fail", "error")

    def stop_job(self, job_id: str, error: str = "", *, lease_id: str | None = None) -> None:
        self._settle(job_id, lease_id, outcome="stop", error=error)

    def stop_jobs(self, told: Iterable[tuple[str, str]]) -> list[Verdict]:
        return self._settle_all(told, "stop", "error")

    def stop_job_with_retry(self, job_id: str, error: str = "", *, lease_id: Any = None) -> None:
        self._settle(job_id, lease_id, outcome="stop_with_retry", error=error)

    def mark_job_unknown_stopped(self, job_id: str, error: str = "", *, lease_id: Any = None) -> None:
        self._settle(job_id, lease_id, outcome="mark_unknown_stopped", error=error)

    def acknowledge_cancellation(
        self, job_id: str, was_executing: bool, *, lease_id: str | None = None
    ) -> None:
        self._settle(job_id, lease_id, outcome="acknowledge_cancellation", was_executing=was_executing)

    def requeue_job(self, job_id: str, at: datetime | None = None, *, error: str = "") -> None:
        moment = None if at is None else at.isoformat()
        self._settle(job_id, None, outcome="requeue", error=error, available_at=moment)

    def reschedule_job(self, job_id: str, at: datetime) -> None:
        self._settle(job_id, None, outcome="reschedule", available_at=at.isoformat())

    def retry_later(self, job_id: str, at: datetime) -> None:
        self._settle(job_id, None, outcome="snooze", available_at=at.isoformat())

    def release(self, job_id: str) -> None:
        self._settle(job_id, None, outcome="release")

    def _settle(self, job_id: str, lease_id: str | None, **said: Any) -> None:
        (verdict,) = self._post([{"job_id": job_id, "lease_id": self._lease(job_id, lease_id), **said}])
        if not verdict.ok:
            raise ERRORS[verdict.reason](verdict)

    def _settle_all(self, told: Iterable[tuple[Any, ...]], outcome: str, member: str) -> list[Verdict]:
        return self._post(
            [
                {
                    "job_id": job_id,
                    "lease_id": self._lease(job_id, *lease_id),
                    "outcome": outcome,
                    member: content,
                }
                for job_id, content, *lease_id in told
            ]
        )

    def _lease(self, job_id: str, lease_id: str | None = None) -> str:
        """The lease that is named, that it was brought under, or that is read by whoever may look."""
        return lease_id or self.leases.get(job_id) or self.beside.get_job(job_id).lease_id or ""

    def _post(self, results: list[Line]) -> list[Verdict]:
        status, answer = self.api.post("/api/jobs/settle", {"results": results})
        if status == 503:
            raise DatabaseUnavailable(answer["detail"])
        assert status == 200, answer
        return [
            Verdict(each["job_id"], each["ok"], each["state"] and JobStatus(each["state"]), each["reason"])
            for each in answer["verdicts"]
        ]


class RemoteStream:
    """The client's side of a stream, by the names that the others have."""

    def __init__(self, queue: RemoteQueue, connection: Connection, asked: dict[str, Any]) -> None:
        self._queue = queue
        self.assignee_id = asked["assignee"]
        self.max_assigned_jobs = asked["capacity"]
        self.connection = connection
        self._session = queue.running.app.state.room._sessions._open[connection.stream_id]
        self._stream: OpenStream = self._session._stream
        self.listener = Listener(connection, self._arrived)

    @property
    def assigned_jobs(self) -> int:
        return self._stream.held

    def on_cancel(self, callback: Callable[[str], object]) -> Callable[[str], object]:
        return self._on("cancel", callback)

    def on_lost(self, callback: Callable[[str], object]) -> Callable[[str], object]:
        return self._on("lost", callback)

    def _on(self, kind: str, callback: Callable[[str], object]) -> Callable[[str], object]:
        def hear(line: Line) -> None:
            if line["type"] == kind:
                callback(line["job_id"])

        self.listener.on_line.append(hear)
        return callback

    def next(self) -> list[Job] | None:
        batch = self.listener.take()
        return None if batch is None else [_job(job) for job in batch]

    def close(self) -> None:
        """Go; return when the server has noticed and has handed back what did not arrive."""
        self.connection.hang_up()
        self._stream.ended.result(PATIENCE_S)

    def _arrived(self, job: Any) -> bool:
        if self._queue.ack:
            held = {"job_id": job["job_id"], "lease_id": job["lease_id"]}
            (verdict,) = self._queue.api.said(f"{self.connection.path}/ack", {"jobs": [held]})["verdicts"]
            if not verdict["ok"]:
                return False
        self._queue.leases[job["job_id"]] = job["lease_id"]
        return True


class RemoteFace(Face):
    """Opens servers, and streams from them."""

    def __init__(self, ack: bool) -> None:
        super().__init__("remote")
        self._ack = ack
        self._leases: dict[str, str] = {}
        """What was brought by any server: any other one settles it as well."""

    def open(self, dsn: str, **options: Any) -> SyncQueue:
        queue = RemoteQueue(dsn, self._ack, self._leases, **options)
        self._closing.callback(queue.close)
        return cast("SyncQueue", queue)

    def stream(
        self,
        queue: Any,
        assignee_id: Any = "me",
        tags: Iterable[str] | None = None,
        max_assigned_jobs: int = 1,
        *,
        queues: Iterable[str] = ("default",),
        lease: Any = None,
    ) -> Reader:
        lease = queue.lease if lease is None else lease
        lease_s = lease.total_seconds() if isinstance(lease, timedelta) else float(lease)
        asked = {
            "assignee": str(assignee_id),
            "tags": list(tags or ()),
            "capacity": max_assigned_jobs,
            "queues": list(queues),
            "lease": max(lease_s, SHORTEST_S),
            "ack": self._ack,
        }
        stream = RemoteStream(queue, queue.api.open(**asked), asked)
        self._closing.callback(stream.listener.close)

        def ask() -> Future[list[Job] | None]:
            return in_thread(stream.next)

        return Reader(cast("Any", stream), ask, stream.close)


@contextmanager
def open_remote_face(ack: bool) -> Generator[RemoteFace]:
    face = RemoteFace(ack)
    try:
        yield face
    finally:
        face.close()


def _job(line: Any) -> Job:
    return Job(
        line["job_id"],
        line["task"] or "",
        line["payload"],
        line["tags"],
        priority=line["priority"],
        status=JobStatus.RUNNING,
        retry_count=line["attempts"],
        assigned_at=datetime.fromisoformat(line["assigned_at"]),
        started_at=datetime.fromisoformat(line["started_at"]),
        lease_expires_at=datetime.fromisoformat(line["lease_expires_at"]),
        lease_id=line["lease_id"],
        worker_id=line["assignee_id"],
        assignee_id=line["assignee_id"],
    )
