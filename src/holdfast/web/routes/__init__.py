"""The routes, one file for every noun."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from holdfast.web.routes import bulk, dead, figures, jobs, people, probes, queues, resources, streams, workers

ROUTERS: Final[tuple[APIRouter, ...]] = (
    jobs.router,
    bulk.router,
    dead.router,
    queues.router,
    workers.router,
    resources.router,
    figures.router,
    people.router,
    streams.router,
    probes.router,
)
