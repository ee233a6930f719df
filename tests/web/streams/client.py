"""A client of a stream as anybody could write it: a connection that is read by a thread, and requests."""

from __future__ import annotations

import http.client
import json
import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tests.queue.streaming import PATIENCE_S, until

Line = dict[str, Any]


class Api:
    """Requests to a server, one connection each, so that threads are not in each other's way."""

    def __init__(self, address: str, headers: dict[str, str] | None = None) -> None:
        self.address = address
        self.host = urlsplit(address).netloc
        self._headers = headers or {}

    def post(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and answer."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE_S)
        try:
            connection.request("POST", path, *self._written(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def said(self, path: str, body: object = None) -> Any:
        """The answer, which is no problem."""
        status, answer = self.post(path, body)
        assert status == 200, (status, answer)
        return answer

    def open(self, accept: str = "application/x-ndjson", **asked: Any) -> Connection:
        """Open a stream; it is read by `read` or by `listen`."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE_S * 2)
        body, headers = self._written(asked)
        connection.request("POST", "/api/streams", body, {**headers, "Accept": accept})
        line = connection.sock  # the answer takes it over
        answer = connection.getresponse()
        if answer.status != 200:
            problem = json.loads(answer.read())
            connection.close()
            raise Refused(answer.status, problem)
        return Connection(self, connection, line, answer)

    def _written(self, body: object) -> tuple[bytes | None, dict[str, str]]:
        if body is None:
            return None, self._headers
        return json.dumps(body).encode(), {**self._headers, "Content-Type": "application/json"}


class Refused(Exception):
    """A stream was not opened."""

    def __init__(self, status: int, problem: Any) -> None:
        super().__init__(status, problem)
        self.status = status
        self.problem = problem


class Connection:
    """An open stream. It says nothing by itself: whoever reads a ping may answer it."""

    def __init__(
        self,
        api: Api,
        connection: http.client.HTTPConnection,
        line: socket.socket,
        answer: http.client.HTTPResponse,
    ) -> None:
        self.api = api
        self.answer = answer
        self._connection = connection
        self._socket = line
        self.first = self.read()
        self.stream_id: str = self.first["stream"]
        self.path = f"/api/streams/{self.stream_id}"

    def read(self) -> Line:
        """The next line, waiting for it; EOFError when there is none."""
        text = self.answer.readline()
        if not text:
            raise EOFError
        line: Line = json.loads(text)
        return line

    def read_jobs(self, count: int) -> list[Any]:
        """So many jobs, whatever else is said; pings are answered."""
        jobs: list[Any] = []
        while len(jobs) < count:
            line = self.read()
            if line["type"] == "job":
                jobs.append(line["job"])
            elif line["type"] == "ping":
                self.beat()
        return jobs

    def read_until(self, kind: str) -> Line:
        """The next line of this kind."""
        while (line := self.read())["type"] != kind:
            if line["type"] == "ping":
                self.beat()
        return line

    def beat(self) -> None:
        self.api.said(f"{self.path}/beat")

    def settle(self, *results: Line) -> list[Any]:
        """Verdicts."""
        answer = self.api.said(f"{self.path}/settle", {"results": results})
        verdicts: list[Any] = answer["verdicts"]
        return verdicts

    def hang_up(self) -> None:
        """Go, as a process that dies goes: from any thread, also while another one reads."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Go, when nobody else reads."""
        self.hang_up()
        self.answer.close()
        self._connection.close()


class Listener:
    """Reads a connection on a thread: jobs wait to be taken, callbacks are called, pings are answered."""

    def __init__(self, connection: Connection, on_job: Callable[[Any], bool]) -> None:
        self.connection = connection
        self.jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.told: list[Line] = []
        self.on_line: list[Callable[[Line], object]] = []
        self.is_over = threading.Event()
        self._on_job = on_job
        self._thread = threading.Thread(target=self._listen, daemon=True, name="a client of the test")
        self._thread.start()

    def close(self) -> None:
        self.connection.hang_up()
        self._thread.join(PATIENCE_S)

    def take(self) -> list[Any] | None:
        """All jobs that have come, waiting for the first; None when it is over."""
        taken = [self.jobs.get()]
        with suppress(queue.Empty):
            while True:
                taken.append(self.jobs.get_nowait())
        if taken[-1] is None:
            self.jobs.put(None)  # for whoever asks again
            taken.pop()
        return taken or None

    def _listen(self) -> None:
        with suppress(OSError, EOFError, ValueError, http.client.HTTPException, AssertionError):
            while True:
                line = self.connection.read()
                match line["type"]:
                    case "job":
                        if self._on_job(line["job"]):
                            self.jobs.put(line["job"])
                    case "ping":
                        self.connection.beat()
                    case _:
                        self.told.append(line)
                        for callback in list(self.on_line):
                            callback(line)
        self.connection.close()
        self.jobs.put(None)
        self.is_over.set()

    def await_told(self, **line: Any) -> None:
        until(lambda: line in self.told, lambda: f"{line} is not among {self.told}")
