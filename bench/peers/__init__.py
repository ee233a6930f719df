"""Holdfast beside other job queues: the same work, the same server, the same run. See README.md."""
