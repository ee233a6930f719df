"""What a worker says of itself every few seconds, so that people see it though it holds no job."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from time import monotonic
from typing import Final

from holdfast.store.call import Call
from holdfast.store.calls import operating

EVERY_S: Final = 10.0
"""How often a worker says that it is there. It is taken for lost after three times that."""

LAST_S: Final = 1.0
"""How long the last word of a worker may take; without it, it is taken for lost."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A worker as others see it. Nothing here is a secret: readers of the installation see it all."""

    worker_id: str
    queues: Mapping[str, int]
    """And how many jobs of each are run at once."""
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    version: str = field(default_factory=lambda: version("holdfast"))
    started: float = field(default_factory=monotonic)

    def call(self, timeout_s: float, *, stopped: bool = False) -> Call[None]:
        """Say that it is there, or that it has stopped."""
        return operating.report_worker(
            self.worker_id,
            self.queues,
            sum(self.queues.values()),
            host=self.host or None,
            pid=self.pid,
            version=self.version,
            running_s=monotonic() - self.started,
            stopped=stopped,
            timeout_s=timeout_s,
        )
