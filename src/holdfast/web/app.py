"""The server put together: what stands before the routes, the routes, and what opens and closes with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from holdfast.web import openapi, pages, problems
from holdfast.web.access import Gate
from holdfast.web.backend import Backend
from holdfast.web.bodies import Bodies
from holdfast.web.credentials import Credentials
from holdfast.web.headers import SafeHeaders
from holdfast.web.paths import RawPaths
from holdfast.web.redaction import Redaction
from holdfast.web.remote.room import Room
from holdfast.web.routes import ROUTERS
from holdfast.web.settings import WebSettings


def create_app(settings: WebSettings) -> FastAPI:
    """The whole server as an ASGI app. Its database is reached at the first use."""
    app = FastAPI(
        title="Holdfast",
        version=version("holdfast"),
        description=openapi.DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.redaction = Redaction(settings.redact)
    app.state.credentials = Credentials(settings.tokens)
    for router in ROUTERS:
        app.include_router(router)
    pages.mount(app)
    problems.install(app)
    openapi.install(app)
    # The last one is met first.
    app.add_middleware(Bodies)
    app.add_middleware(Gate, settings=settings, credentials=app.state.credentials)
    app.add_middleware(RawPaths)
    app.add_middleware(SafeHeaders)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    backend = app.state.backend = Backend(app.state.settings)
    app.state.room = Room(backend)
    upkeep = asyncio.create_task(backend.keep_up())
    try:
        yield
    finally:
        upkeep.cancel()
        await asyncio.gather(upkeep, return_exceptions=True)
        await app.state.room.close()
        await backend.close()
