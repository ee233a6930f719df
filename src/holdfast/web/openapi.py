"""The document of the API: what there is beside the routes themselves."""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

DESCRIPTION: Final = """Jobs, queues, workers and resources of one Holdfast installation.

Every refusal is a problem (RFC 9457). Names in a path are percent-encoded, slashes included; the names `.`
and `..` are written `=.` and `=..`. A change asked for by the page of another site is refused."""

_TITLES: Final = {
    400: "The address cannot be read.",
    401: "Nobody knows who asks.",
    403: "Whoever asks may not, or a page of another site asks.",
    404: "There is none.",
    406: "It is not written in any way that was asked for.",
    408: "The body took too long.",
    409: "It is not in a state in which this can be done.",
    413: "The body is too large.",
    415: "The body is not plain JSON.",
    422: "A value, a query or the body does not make sense.",
    429: "Too much at once.",
    503: "The database does not answer, or not in time.",
}

_ALWAYS: Final = (400, 401, 403, 422, 429, 503)


class ProblemBody(BaseModel):
    """What went wrong (RFC 9457), with more members where a program can use them."""

    model_config = ConfigDict(extra="allow", title="Problem")

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str


def problems(*more: int, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """For `responses=`: the problems that every route may have, and these."""
    statuses = {*_ALWAYS, *more, *((408, 413, 415) if body else ())}
    return {
        status: {
            "description": _TITLES[status],
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted(statuses)
    }


def answers(
    model: type[BaseModel], *more: int, status: int = 200, body: bool = False
) -> dict[int | str, dict[str, Any]]:
    """For `responses=`: what a route answers if all is well, and the problems it may have."""
    return {status: {"model": model}} | problems(*more, body=body)


def install(app: FastAPI) -> None:
    """Add to the document what no route says."""
    draw = app.openapi

    def drawn() -> dict[str, Any]:
        document = draw()
        components: dict[str, Any] = document.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = ProblemBody.model_json_schema()
        components["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "password": {"type": "http", "scheme": "basic"},
        }
        document["security"] = [{"token": []}, {"password": []}]
        return document

    app.openapi = drawn  # type: ignore[method-assign]
