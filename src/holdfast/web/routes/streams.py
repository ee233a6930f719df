"""Streams for workers in any language; settling and keeping what they brought."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from holdfast.console.shapes import Shape
from holdfast.domain.outcome import Verdict
from holdfast.store import Extension
from holdfast.web.access import needs
from holdfast.web.openapi import answers, problems
from holdfast.web.problems import Problem
from holdfast.web.remote import models
from holdfast.web.remote.answer import StreamAnswer
from holdfast.web.remote.bodies import ExtendBody, HeldBody, OpenBody, SettleBody
from holdfast.web.remote.lines import EVENTS, NDJSON, way_for
from holdfast.web.remote.room import sessions_of
from holdfast.web.sending import json_answer
from holdfast.web.settings import Role

router = APIRouter(prefix="/api", tags=["streams"], dependencies=[needs(Role.OPERATOR)])

_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The stream itself: one JSON object a line, or an event.",
        "content": {NDJSON: {"schema": {"type": "string"}}, EVENTS: {"schema": {"type": "string"}}},
    }
}


@router.post("/streams", response_class=Response, responses=_LINES | problems(406, body=True))
async def open_stream(request: Request, body: OpenBody) -> Response:
    """Open a stream; the answer is the stream, and goes on until it is closed.

    Its lines are objects with a `type`: `open` (`stream`, `lease_s`, `ping_s`), `job` (`job`, leased to the
    assignee), `cancel` and `lost` (`job_id`), `ping`, to be answered with a beat, and `close` (`reason`).
    """
    media_type = way_for(request.headers.get("accept", ""))
    if media_type is None:
        raise Problem(406, "Not acceptable", f"A stream is written as {NDJSON} or as {EVENTS}.")
    sessions = await sessions_of(request)
    session = await sessions.open(
        body.terms(), acknowledges=body.ack, holding=body.holds(), replaces=body.replaces
    )
    return StreamAnswer(session, media_type)


@router.post("/streams/{stream_id:name}/beat", responses=answers(models.Alive, 404, body=True))
async def beat(request: Request, stream_id: str) -> Response:
    """Say that the worker lives: the leases of the stream are kept for another lease."""
    session = (await sessions_of(request)).find(stream_id)
    return json_answer({"stream": stream_id, "held": session.held})


@router.post("/streams/{stream_id:name}/ack", responses=answers(models.Arrivals, 404, body=True))
async def acknowledge(request: Request, stream_id: str, body: HeldBody) -> Response:
    """Say that jobs have arrived; begin those that are yours."""
    holds = body.holds()
    arrived = (await sessions_of(request)).find(stream_id).acknowledge(holds)
    verdicts = [{"job_id": job_id, "ok": ok} for (job_id, _), ok in zip(holds, arrived, strict=True)]
    return json_answer({"verdicts": verdicts})


@router.post("/streams/{stream_id:name}/settle", responses=answers(models.Verdicts, 404, body=True))
async def settle_on_stream(request: Request, stream_id: str, body: SettleBody) -> Response:
    """Say what became of jobs, and that the worker lives."""
    sessions = await sessions_of(request)
    sessions.find(stream_id)
    return _verdicts(await sessions.settle(body.settlements()))


@router.post("/streams/{stream_id:name}/drain", responses=answers(models.Alive, 404, body=True))
async def drain(request: Request, stream_id: str) -> Response:
    """Bring nothing more; the stream ends when all it brought is settled."""
    session = (await sessions_of(request)).find(stream_id)
    session.drain()
    return json_answer({"stream": stream_id, "held": session.held})


@router.post("/jobs/settle", responses=answers(models.Verdicts, body=True))
async def settle(request: Request, body: SettleBody) -> Response:
    """Say what became of jobs, by their leases, with or without a stream."""
    sessions = await sessions_of(request)
    return _verdicts(await sessions.settle(body.settlements()))


@router.post("/jobs/extend", responses=answers(models.Extensions, body=True))
async def extend(request: Request, body: ExtendBody) -> Response:
    """Keep jobs for longer, by their leases, with or without a stream."""
    sessions = await sessions_of(request)
    extensions = await sessions.extend(body.holds(), body.lease)
    return json_answer({"verdicts": [_extension(each) for each in extensions]})


def _verdicts(verdicts: list[Verdict]) -> Response:
    return json_answer({"verdicts": [_verdict(verdict) for verdict in verdicts]})


def _verdict(verdict: Verdict) -> Shape:
    return {
        "job_id": verdict.job_id,
        "ok": verdict.ok,
        "state": verdict.status,
        "reason": verdict.reason,
    }


def _extension(extension: Extension) -> Shape:
    return {
        "job_id": extension.job_id,
        "hold": extension.hold,
        "state": extension.state,
        "lease_expires_at": extension.lease_expires_at,
    }
