"""Queues: how the lines stand; pause, resume and limit them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.console import shapes, views
from holdfast.store.calls import operating
from holdfast.store.steps import ask
from holdfast.web import models
from holdfast.web.access import needs
from holdfast.web.asking import LimitBody
from holdfast.web.backend import backend
from holdfast.web.openapi import answers
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(prefix="/api/queues", tags=["queues"], dependencies=[needs(Role.VIEWER)])

OPERATOR = [needs(Role.OPERATOR)]
ADMIN = [needs(Role.ADMIN)]


@router.get("", responses=answers(models.Queues))
async def list_queues(request: Request) -> Response:
    """Every queue that has a live job, is paused or has a limit."""
    seen = await backend(request).read(views.queues())
    return json_answer({"at": seen.at, "queues": [shapes.queue(seen, line) for line in seen.queues]})


@router.post("/{queue:name}/pause", dependencies=OPERATOR, responses=answers(models.Paused, body=True))
async def pause(request: Request, queue: str) -> Response:
    """Let no job of a queue be claimed; running ones go on."""
    changed = await backend(request).act(ask(operating.pause_queue(queue)))
    return json_answer({"queue": queue, "paused": True, "changed": changed})


@router.post("/{queue:name}/resume", dependencies=OPERATOR, responses=answers(models.Paused, body=True))
async def resume(request: Request, queue: str) -> Response:
    """Let the jobs of a queue be claimed again."""
    changed = await backend(request).act(ask(operating.resume_queue(queue)))
    return json_answer({"queue": queue, "paused": False, "changed": changed})


@router.put("/{queue:name}/limit", dependencies=ADMIN, responses=answers(models.Limit, body=True))
async def limit(request: Request, queue: str, body: LimitBody) -> Response:
    """Let at most so many jobs of a queue be held at once, over all workers; null takes the limit away."""
    set_to = await backend(request).act(ask(operating.set_queue_limit(queue, body.limit)))
    return json_answer({"queue": queue, "limit": set_to})
