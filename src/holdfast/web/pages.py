"""The dashboard: built files with hashed names, and one page for every address that is not one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

DIST: Final = Path(__file__).parent / "dist"
FOR_EVER: Final = "public, max-age=31536000, immutable"

NOT_BUILT: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Holdfast</title><h1>Holdfast</h1>"
    "<p>The dashboard has not been built: run <code>make ui</code> in a clone of the project.</p>"
    "<p>The API is here: <a href=/api/queues>/api/queues</a>, "
    "<a href=/api/jobs>/api/jobs</a>; <a href=/openapi.json>/openapi.json</a> has all of it.</p>"
)


class Dashboard(StaticFiles):
    """Files under /assets are kept by browsers for ever: their names change with what is in them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            answer = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code != 404 or path.startswith("assets/"):
                raise
            answer = await super().get_response("index.html", scope)
        answer.headers["Cache-Control"] = FOR_EVER if path.startswith("assets/") else "no-cache"
        return answer


class _Beside(Mount):
    """Everything but the API, which is to say itself that there is no such route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if scope["path"].startswith("/api/") else super().matches(scope)


def mount(app: FastAPI) -> None:
    """Serve the dashboard, or say how to build it."""
    if (DIST / "index.html").is_file():
        app.router.routes.append(_Beside("/", Dashboard(directory=DIST, html=True), name="dashboard"))
    else:
        app.add_api_route("/", _not_built, include_in_schema=False)


async def _not_built() -> Response:
    return HTMLResponse(NOT_BUILT)
