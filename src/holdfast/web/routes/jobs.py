"""Jobs: find them, look at one, submit, cancel, revive, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from holdfast.console import search, shapes, views
from holdfast.console.walks import Cursor
from holdfast.errors import JobNotFound
from holdfast.store.calls import cancelling
from holdfast.store.calls.submitting import submit_jobs
from holdfast.store.steps import ask
from holdfast.web import models
from holdfast.web.access import Principal, needs
from holdfast.web.asking import BatchBody, NewJobBody, ReasonBody, Shown, Wanted
from holdfast.web.backend import PATIENCE_S, backend
from holdfast.web.openapi import answers
from holdfast.web.problems import Problem
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

LARGEST_PAGE = 200

router = APIRouter(prefix="/api/jobs", tags=["jobs"], dependencies=[needs(Role.VIEWER)])

Operator = Annotated[Principal, needs(Role.OPERATOR)]
Admin = Annotated[Principal, needs(Role.ADMIN)]


@router.get("", responses=answers(models.Page))
async def list_jobs(
    request: Request,
    query: Wanted,
    shown: Shown,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 50,
    cursor: Annotated[str | None, Query(max_length=100, description="`next` of another page.")] = None,
) -> Response:
    """Jobs that match, live and archived, the latest first; dead ones by their end.

    `complete` is false where the search stopped looking before it had seen all jobs: `next` goes on from
    there. Payloads and results that are large and the history of errors are left out: `left_out` names them.
    """
    after = None if cursor is None else Cursor.read(cursor)
    page = await backend(request).read(search.light_page(query, limit, after, patience_s=PATIENCE_S))
    return json_answer(
        {
            "jobs": [shown.job(shapes.in_list(job)) for job in page.jobs],
            "next": None if page.next is None else str(page.next),
            "complete": page.stopped_after is None,
        }
    )


@router.get("/count", responses=answers(models.Count))
async def count_jobs(request: Request, query: Wanted) -> Response:
    """How many jobs match, counted up to 10,000 and not for long: `capped` means that there may be more."""
    found = await backend(request).read(search.count(query, patience_s=PATIENCE_S))
    return json_answer({"count": found.jobs, "capped": found.is_capped})


@router.post("", status_code=201, responses=answers(models.Submitted, 409, status=201, body=True))
async def submit(request: Request, body: NewJobBody, who: Operator) -> Response:
    """Put a job in line."""
    (job_id,) = await _submit(request, [body], who)
    return json_answer({"id": job_id}, 201)


@router.post("/batch", status_code=201, responses=answers(models.SubmittedMany, 409, status=201, body=True))
async def submit_many(request: Request, body: BatchBody, who: Operator) -> Response:
    """Put jobs in line, all or none."""
    return json_answer({"ids": await _submit(request, body.jobs, who)}, 201)


async def _submit(request: Request, bodies: list[NewJobBody], who: Principal) -> list[str]:
    jobs = [body.job() for body in bodies]
    try:
        return await backend(request).act(ask(submit_jobs(jobs, worker_id=who.name)))
    except JobNotFound as error:  # one that it is to wait for
        raise Problem(422, "Invalid value", str(error)) from error


@router.get("/{job_id:name}", responses=answers(models.JobView, 404))
async def get_job(request: Request, job_id: str, shown: Shown) -> Response:
    """A job, what it waits for, the first of those that wait for it, its errors, what happened to it."""
    seen = await backend(request).read(views.job_view(job_id))
    return json_answer(
        {
            **shown.job(shapes.job(seen.job)),
            "parents": [shapes.relative(job) for job in seen.parents],
            "children": [shapes.relative(job) for job in seen.children],
            "trace": shapes.trace(seen.trace),
        }
    )


@router.get("/{job_id:name}/trace", responses=answers(models.Trace, 404))
async def get_trace(request: Request, job_id: str) -> Response:
    """What happened to a job, in order, as far as it is traced."""
    return json_answer(shapes.trace(await backend(request).read(views.trace(job_id))))


@router.post("/{job_id:name}/cancel", responses=answers(models.Changed, 404, 409, body=True))
async def cancel(request: Request, job_id: str, who: Operator, body: ReasonBody | None = None) -> Response:
    """Cancel a job and those that wait for it; a running one is asked to stop."""
    reason = body.reason if body else None
    state = await backend(request).act(ask(cancelling.cancel_job(job_id, who.name, reason)))
    return json_answer({"job_id": job_id, "state": state})


@router.post("/{job_id:name}/revive", responses=answers(models.Changed, 404, 409, body=True))
async def revive(request: Request, job_id: str, who: Operator, body: ReasonBody | None = None) -> Response:
    """Bring a dead job back, with all its attempts."""
    reason = body.reason if body else None
    call = cancelling.revive_job(job_id, worker_id=who.name, reason=reason)
    state = await backend(request).act(ask(call))
    return json_answer({"job_id": job_id, "state": state})


@router.delete("/{job_id:name}", responses=answers(models.Deleted, 404, 409, body=True))
async def delete(request: Request, job_id: str, who: Admin) -> Response:
    """Delete a job that has ended, and for which none waits."""
    call = cancelling.delete_jobs(job_ids=[job_id], worker_id=who.name)
    if not await backend(request).act(ask(call)):
        raise JobNotFound(f"job {job_id} does not exist")
    return json_answer({"job_id": job_id, "deleted": True})
