"""For whoever watches the server: does it live, can it work, and in figures."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.web import models
from holdfast.web.access import needs
from holdfast.web.backend import backend
from holdfast.web.metrics import MEDIA_TYPE
from holdfast.web.openapi import answers, problems
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(tags=["probes"])

VIEWER = [needs(Role.VIEWER)]


@router.get("/livez", responses={200: {"model": models.Ok}}, openapi_extra={"security": []})
async def livez() -> Response:
    """Does the server live? Open to everybody."""
    return json_answer({"ok": True})


@router.get("/readyz", dependencies=VIEWER, responses=answers(models.Ok))
async def readyz(request: Request) -> Response:
    """Does the database answer, and does its schema fit this release?"""
    await backend(request).check()
    return json_answer({"ok": True})


@router.get(
    "/metrics",
    dependencies=VIEWER,
    response_class=Response,
    responses=problems()
    | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "For Prometheus."}},
)
async def metrics(request: Request) -> Response:
    """Queues, ends of jobs and this server in figures, in the text format of Prometheus."""
    here = backend(request)
    return Response(await here.scraper.scrape(here.ticker.watchers), media_type=MEDIA_TYPE)
