"""PostgreSQL's own client, for what must work without Python."""

from __future__ import annotations

import shutil
import subprocess

from holdfast.embedded import find_binaries
from holdfast.errors import BinariesNotFound


def run_psql(dsn: str, script: str) -> subprocess.CompletedProcess[str]:
    """Feed a script to psql as a person would; the caller looks at the exit code and stderr."""
    command = [_psql(), "--no-psqlrc", "--quiet", f"--dbname={dsn}"]
    return subprocess.run(command, input=script, text=True, capture_output=True, timeout=60, check=False)


def _psql() -> str:
    try:
        ours = find_binaries().directory / "psql"
    except BinariesNotFound:
        return "psql"
    return str(ours) if ours.exists() else shutil.which("psql") or "psql"
