"""Queues: how the lines stand; pause and resume them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.console import shapes, views
from holdfast.store.calls import operating
from holdfast.store.steps import ask
from holdfast.web.access import needs
from holdfast.web.backend import backend
from holdfast.web.openapi import problems
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(prefix="/api/queues", tags=["queues"], dependencies=[needs(Role.VIEWER)])


@router.get("", responses=problems(), summary="Every queue that has a live job or is paused")
async def list_queues(request: Request) -> Response:
    seen = await backend(request).read(views.queues())
    return json_answer({"at": seen.at, "queues": [shapes.queue(seen, line) for line in seen.queues]})


@router.post(
    "/{queue:name}/pause",
    dependencies=[needs(Role.OPERATOR)],
    responses=problems(body=True),
    summary="Let no job of a queue be claimed; running ones go on",
)
async def pause(request: Request, queue: str) -> Response:
    changed = await backend(request).act(ask(operating.pause_queue(queue)))
    return json_answer({"queue": queue, "paused": True, "changed": changed})


@router.post(
    "/{queue:name}/resume",
    dependencies=[needs(Role.OPERATOR)],
    responses=problems(body=True),
    summary="Let the jobs of a queue be claimed again",
)
async def resume(request: Request, queue: str) -> Response:
    changed = await backend(request).act(ask(operating.resume_queue(queue)))
    return json_answer({"queue": queue, "paused": False, "changed": changed})
