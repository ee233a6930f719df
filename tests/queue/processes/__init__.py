"""Processes of their own for the scenarios of the queue: who enqueues, streams and settles are apart."""
