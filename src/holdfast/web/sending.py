"""Answers in JSON, as exact as the database has it."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.console import shapes


def json_answer(shape: object, status: int = 200) -> Response:
    """A shape as it is: integers with all their digits, which other encoders cut."""
    return Response(shapes.encode(shape), status, media_type="application/json")
