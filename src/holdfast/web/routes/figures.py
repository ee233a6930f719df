"""How the installation does: figures, health, the doctor's findings, and all of it live."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from holdfast.console import doctor, shapes, views
from holdfast.console.health import health
from holdfast.web import models
from holdfast.web.access import needs
from holdfast.web.backend import backend
from holdfast.web.openapi import answers, problems
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(prefix="/api", tags=["figures"], dependencies=[needs(Role.VIEWER)])

MOST_MINUTES = 7 * 24 * 60
"""So long the upkeep keeps it."""

UNBUFFERED = {"X-Accel-Buffering": "no"}
"""Proxies are to pass events on as they come."""


@router.get("/stats", responses=answers(models.Stats))
async def get_stats(request: Request) -> Response:
    """How many jobs wait, run, are dead, and ended lately; each line is counted up to 10,000."""
    return json_answer(shapes.stats(await backend(request).read(views.stats())))


@router.get("/history", responses=answers(models.History))
async def get_history(
    request: Request,
    minutes: Annotated[int, Query(ge=1, le=MOST_MINUTES)] = 60,
    queue: Annotated[str | None, Query(min_length=1, max_length=40)] = None,
) -> Response:
    """How things went, over all queues or in one, in at most 240 points."""
    return json_answer(shapes.history(await backend(request).read(views.history(minutes, queue))))


@router.get("/health", responses=answers(models.Health))
async def get_health(request: Request) -> Response:
    """One sentence, and what needs doing."""
    seen = await backend(request).read(health())
    findings = [shapes.finding(finding) for finding in seen.findings]
    return json_answer({"ok": seen.ok, "sentence": seen.sentence, "findings": findings})


@router.get("/doctor", responses=answers(models.Doctor))
async def get_doctor(request: Request) -> Response:
    """Every check of the database and the installation; each finding says what to do."""
    here = backend(request)
    found = await here.read(doctor.checkup(here.settings.schema))
    ok = not any(finding.level is doctor.Level.PROBLEM for finding in found)
    return json_answer({"ok": ok, "findings": [shapes.finding(finding) for finding in found]})


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses=problems()
    | {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events."}},
)
async def get_events(request: Request) -> Response:
    """Server-sent events: `tick` with queues, jobs ended in the last minute and the number of workers,
    whenever that changed, at most once a second; `jobs`, a hint that lists may have changed."""
    here = backend(request)
    here.ticker.check_room()
    events = here.ticker.watch(here.closing)
    return StreamingResponse(events, media_type="text/event-stream", headers=UNBUFFERED)
