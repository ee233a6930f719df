"""A worker of `tests.worker.app` in a process of its own: `python -m tests.worker.process QUEUES SETTINGS`.

It prints "ready" when the first claim was answered, and its log as JSON on stderr.
"""

from __future__ import annotations

import json
import sys

from holdfast.worker import logs, program
from tests.worker.app import hf


def main() -> None:
    logs.set_up("json", "info")
    queues, settings = map(json.loads, sys.argv[1:3])
    sys.exit(
        program.run(hf.worker(queues, **settings), on_ready=lambda: print("ready", flush=True), is_last=True)
    )


if __name__ == "__main__":
    main()
