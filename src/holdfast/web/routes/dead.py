"""Dead letters, by what they died of."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.console import dead, shapes
from holdfast.web import models
from holdfast.web.access import needs
from holdfast.web.backend import backend
from holdfast.web.openapi import answers
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(prefix="/api/dead", tags=["dead letters"], dependencies=[needs(Role.VIEWER)])


@router.get("", responses=answers(models.DeadGroups))
async def list_groups(request: Request) -> Response:
    """The latest 10,000 dead jobs by task and first line of the error, the largest groups first.

    `q` is the query that finds the jobs of a group, for a list or a bulk action. It looks for the line
    anywhere in the error, so it may find some more.
    """
    seen = await backend(request).read(dead.groups())
    return json_answer(
        {"groups": [shapes.dead_group(group, seen.capped) for group in seen.groups], "capped": seen.capped}
    )
