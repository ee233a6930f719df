"""Kinds of faults, each a few lines behind one interface; see `registry`."""

from gauntlet.faults import database, handlers, network, processes, servers, sessions, surroundings
from gauntlet.faults.registry import FAULTS, Fault

__all__ = [
    "FAULTS",
    "Fault",
    "database",
    "handlers",
    "network",
    "processes",
    "servers",
    "sessions",
    "surroundings",
]
