"""What people see of an installation, and do to it: the same for commands, the HTTP API and the dashboard.

Everything here is described as steps, calls of the database one after the other, and returns typed values.
`run` blocks on them and `arun` awaits them. Nothing here knows a terminal, a browser or a format.

Read `search` and `bulk` first: which jobs, and doing something to all of them. `walks` is how they are found.
"""

from holdfast.console.running import arun, run

__all__ = ["arun", "run"]
