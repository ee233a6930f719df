"""Resources and singleton keys: who holds them, how many want them, how many may."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.console import shapes, views
from holdfast.store.calls import operating
from holdfast.store.steps import ask
from holdfast.web import models
from holdfast.web.access import needs
from holdfast.web.asking import CapacityBody
from holdfast.web.backend import backend
from holdfast.web.openapi import answers
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(prefix="/api/resources", tags=["resources"], dependencies=[needs(Role.VIEWER)])


@router.get("", responses=answers(models.Resources))
async def list_resources(request: Request) -> Response:
    """Resources and singleton keys that are held or wanted, the most wanted first."""
    found = await backend(request).read(views.resources())
    return json_answer({"resources": [shapes.resource(each) for each in found]})


@router.put("/{key:name}", dependencies=[needs(Role.ADMIN)], responses=answers(models.Capacity, body=True))
async def set_capacity(request: Request, key: str, body: CapacityBody) -> Response:
    """Say how many jobs may hold a resource at once."""
    capacity = await backend(request).act(ask(operating.set_resource_capacity(key, body.capacity)))
    return json_answer({"key": key, "capacity": capacity})
