"""Who one is, logging in and out."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.web import models
from holdfast.web.access import EVERYBODY, Principal, client_of, needs, principal_of
from holdfast.web.asking import LoginBody
from holdfast.web.backend import backend
from holdfast.web.credentials import COOKIE, SESSION_S, Credentials
from holdfast.web.openapi import answers
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(prefix="/api", tags=["people"])

Viewer = Annotated[Principal, needs(Role.VIEWER)]


@router.get("/me", responses=answers(models.Me))
async def get_me(request: Request, who: Viewer) -> Response:
    """Who one is here, and what this server serves."""
    return json_answer(_me(request, who))


@router.post("/login", responses=answers(models.Me, body=True))
async def log_in(request: Request, body: LoginBody) -> Response:
    """Exchange the secret of a token for a cookie, as browsers need it."""
    if backend(request).settings.is_open:
        return json_answer(_me(request, EVERYBODY))
    credentials: Credentials = request.app.state.credentials
    token = credentials.of_secret(body.token, client_of(request.scope))
    answer = json_answer(_me(request, principal_of(token)))
    answer.set_cookie(
        COOKIE,
        credentials.cookie_for(token),
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/logout", responses=answers(models.LoggedOut, body=True))
async def log_out() -> Response:
    """Forget the cookie."""
    answer = json_answer({"ok": True})
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _me(request: Request, who: Principal) -> dict[str, object]:
    return {
        "name": who.name,
        "role": str(who.role),
        "schema": backend(request).settings.schema,
        "version": version("holdfast"),
    }
