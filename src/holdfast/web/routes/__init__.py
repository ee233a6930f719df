"""The routes, one file for every noun."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from holdfast.web.routes import probes, queues

ROUTERS: Final[tuple[APIRouter, ...]] = (probes.router, queues.router)
