"""Every refusal and every failure leaves as application/problem+json (RFC 9457), through here."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from holdfast.console import shapes
from holdfast.errors import (
    DatabaseUnavailable,
    HoldfastError,
    InvalidArgument,
    JobExists,
    JobNotFound,
    LeaseLost,
    QueryError,
    ResourceBusy,
    WrongState,
)

MEDIA_TYPE: Final = "application/problem+json"

logger: Final = logging.getLogger("holdfast.web")


class Problem(HTTPException):
    """Something is not as it should be: a status, a title and what to do about it; `more` for programs."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, detail, headers)
        self.title = title
        self.more = more

    def response(self) -> Response:
        """What the client gets to see."""
        body = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status_code,
            "detail": self.detail,
            **self.more,
        }
        return Response(shapes.encode(body), self.status_code, self.headers, MEDIA_TYPE)


def problem_of(error: HoldfastError) -> Problem:
    """What an error of ours is over HTTP."""
    said = str(error)
    match error:
        case QueryError():
            return Problem(422, "Unreadable query", said, piece=error.piece, position=error.position)
        case InvalidArgument():
            return Problem(422, "Invalid value", said)
        case JobNotFound():
            return Problem(404, "No such job", said)
        case JobExists():
            return Problem(409, "The id is taken", said)
        case WrongState() | LeaseLost() | ResourceBusy():
            return Problem(409, "Not in this state", said)
        case DatabaseUnavailable():
            return Problem(503, "No answer from the database", said, headers={"Retry-After": "1"})
        case _:
            return Problem(503, "Not ready", said, headers={"Retry-After": "5"})


def install(app: FastAPI) -> None:
    """Let every error of the app leave as a problem."""
    app.add_exception_handler(HoldfastError, _ours)
    app.add_exception_handler(StarletteHTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _unexpected)


def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)  # noqa: S101
    return problem_of(error).response()


def _http(request: Request, error: Exception) -> Response:
    if isinstance(error, Problem):
        return error.response()
    assert isinstance(error, StarletteHTTPException)  # noqa: S101
    title = HTTPStatus(error.status_code).phrase
    headers = dict(error.headers or {})
    return Problem(error.status_code, title, str(error.detail), headers=headers).response()


def _invalid(request: Request, error: Exception) -> Response:
    """What was sent does not fit. It is not repeated: it may be a secret."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    errors = [
        {"where": [str(part) for part in each["loc"]], "says": str(each["msg"])}
        for each in error.errors()[:20]
    ]
    detail = "; ".join(f"{'.'.join(each['where'])}: {each['says']}" for each in errors[:3])
    return Problem(422, "Invalid request", detail, errors=errors).response()


def _unexpected(request: Request, error: Exception) -> Response:
    """The server logs it; the client learns nothing that it should not."""
    return Problem(
        500, "Internal error", "This should not have happened; the server's log says more."
    ).response()
