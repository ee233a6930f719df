"""Measurements a user can repeat: the engine against a bare queue, on the same server, in one run."""
