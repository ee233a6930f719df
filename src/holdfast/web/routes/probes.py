"""For whoever watches the server: does it live, can it work."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.store.calls import watching
from holdfast.store.steps import ask
from holdfast.web.backend import backend
from holdfast.web.openapi import problems
from holdfast.web.sending import json_answer

router = APIRouter(tags=["probes"])


@router.get("/livez", summary="Does the server live? Open to everybody.")
async def livez() -> Response:
    return json_answer({"ok": True})


@router.get(
    "/readyz", responses=problems(), summary="Does the database answer, and does its schema fit this release?"
)
async def readyz(request: Request) -> Response:
    await backend(request).read(ask(watching.database_clock()))
    return json_answer({"ok": True})
