"""Doing something to all jobs that match, bounded by the moment they were counted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.console import search, shapes
from holdfast.console.bulk import meant_by
from holdfast.domain.search import Query, parse
from holdfast.store.calls import searching
from holdfast.store.calls.searching import Snapshot
from holdfast.store.steps import Steps, ask
from holdfast.web import models
from holdfast.web.access import Principal, needs, not_enough
from holdfast.web.asking import BulkBody, Shown
from holdfast.web.backend import Backend, backend
from holdfast.web.openapi import answers
from holdfast.web.problems import Problem
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

SAMPLES = 5

router = APIRouter(prefix="/api/bulk", tags=["bulk"], dependencies=[needs(Role.VIEWER)])

Operator = Annotated[Principal, needs(Role.OPERATOR)]


BEGUN: dict[int | str, dict[str, Any]] = {202: {"model": models.Started, "description": "It has begun."}}


@router.post("", responses=answers(models.DryRun, body=True) | BEGUN)
async def do_to_all(request: Request, body: BulkBody, who: Operator, shown: Shown) -> Response:
    """Count what an action would change, or begin it.

    Jobs that came or ended after the snapshot are left alone. It goes on in the background, some hundred jobs
    at a time; `GET /api/bulk/{operation}` tells how far it is.
    """
    if body.action == "delete" and who.role < Role.ADMIN:
        raise not_enough(who, Role.ADMIN)
    query = parse(body.q)
    if not query:
        raise Problem(422, "Invalid value", "The query is empty, and that would be all jobs: say which.")
    shown.check(query)
    here = backend(request)
    meant = meant_by(query, body.act)
    if body.dry_run:
        return await _try(here, meant, shown)
    if body.snapshot is None:
        raise Problem(422, "Invalid value", "snapshot is missing: a dry run gives one.")
    until = await here.read(_no_later(Snapshot.read(body.snapshot)))
    counted = await here.read(search.count(meant, until=until))
    total = None if counted.is_capped else counted.jobs
    operation = here.operations.start(body.act, query, until, total, reason=body.reason, by=who.name)
    return json_answer({"operation": operation.id}, 202)


@router.get("/{operation:name}", responses=answers(models.Operation, 404))
async def get_operation(request: Request, operation: str) -> Response:
    """How far an action is; the latest hundred are remembered until the server stops."""
    return json_answer(backend(request).operations.get(operation).shape())


@router.post("/{operation:name}/stop", responses=answers(models.Operation, 404, body=True))
async def stop(request: Request, operation: str, who: Operator) -> Response:
    """Stop an action after the jobs it is at; what was done stays done."""
    return json_answer((await backend(request).operations.stop(operation)).shape())


async def _try(here: Backend, meant: Query, shown: Shown) -> Response:
    counted = await here.read(search.count(meant))
    samples = await here.read(search.light_page(meant, SAMPLES))
    return json_answer(
        {
            "count": counted.jobs,
            "capped": counted.is_capped,
            "snapshot": str(counted.snapshot),
            "samples": [shown.job(shapes.in_list(job)) for job in samples.jobs],
        }
    )


def _no_later(asked: Snapshot) -> Steps[Snapshot]:
    """That moment, or now if it is said to be later."""
    now = yield from ask(searching.snapshot())
    return Snapshot(min(asked.number, now.number), min(asked.at, now.at))
