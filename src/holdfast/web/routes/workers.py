"""Workers: who holds jobs."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.console import shapes, views
from holdfast.web import models
from holdfast.web.access import needs
from holdfast.web.backend import backend
from holdfast.web.openapi import answers
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(prefix="/api/workers", tags=["workers"], dependencies=[needs(Role.VIEWER)])


@router.get("", responses=answers(models.Workers))
async def list_workers(request: Request) -> Response:
    """Who works, and what each holds."""
    seen = await backend(request).read(views.workers())
    return json_answer({"at": seen.at, "workers": [shapes.worker(worker) for worker in seen.workers]})
