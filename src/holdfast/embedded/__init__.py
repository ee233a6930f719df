"""A private, real PostgreSQL for people who have none.

`start()` makes it, starts it and shares it between all processes of a project; it stops when the last of them
is gone. Nobody else on the machine can reach it: one Unix socket in a closed directory, no TCP, no password.
"""

from holdfast.embedded.binaries import Binaries, find_binaries
from holdfast.embedded.database import Database, database_or_embedded
from holdfast.embedded.lifecycle import Status, start, status, stop
from holdfast.embedded.places import default_directory
from holdfast.embedded.server import Server

__all__ = [
    "Binaries",
    "Database",
    "Server",
    "Status",
    "database_or_embedded",
    "default_directory",
    "find_binaries",
    "start",
    "status",
    "stop",
]
