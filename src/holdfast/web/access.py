"""Who may come in. Nothing is open but `/livez`, and whatever changes something needs an operator.

One gate stands before all routes, pages, streams and addresses that do not exist: it asks by what name the
server was called, who calls, and whether a browser was sent here by another site. Routes only say where they
want more than that: `needs(Role.ADMIN)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.web.credentials import Credentials
from holdfast.web.origins import Origins
from holdfast.web.problems import Problem
from holdfast.web.settings import Role, Token, WebSettings

OPEN_PATHS: Final = frozenset({"/livez"})
LOGIN_PATH: Final = "/api/login"
"""Open to whoever comes with a token in the body; the route checks it."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_PRINCIPAL: Final = "holdfast.principal"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks."""

    name: str
    role: Role


EVERYBODY: Final = Principal("local", Role.ADMIN)
"""Whoever reaches a server on loopback that has no tokens."""


class Gate:
    """Let in who may come in, and note who it is."""

    def __init__(self, app: ASGIApp, settings: WebSettings, credentials: Credentials) -> None:
        self._app = app
        self._settings = settings
        self._credentials = credentials
        self._origins = Origins(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"nothing here speaks {scope['type']}")
        refused = self._judge(scope)
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await refused(scope, receive, send)

    def _judge(self, scope: Scope) -> Response | None:
        """Note who asks; or what to answer instead."""
        if scope["path"] in OPEN_PATHS:
            return None
        headers = Headers(scope=scope)
        safe = scope["method"] in SAFE_METHODS
        try:
            self._origins.check_host(headers)
            if not safe:
                self._origins.check_origin(headers)
            if scope["path"] == LOGIN_PATH:
                return None
            principal = self._who(headers, scope)
        except Problem as problem:
            if problem.status_code == 401 and "text/html" in headers.get("accept", ""):
                return _ask_a_person(problem)
            return problem.response()
        if not safe and principal.role < Role.OPERATOR:
            return not_enough(principal, Role.OPERATOR).response()
        scope[_PRINCIPAL] = principal
        return None

    def _who(self, headers: Headers, scope: Scope) -> Principal:
        if self._settings.is_open:
            return EVERYBODY
        token = self._credentials.of_request(headers, client_of(scope))
        return principal_of(token)


def needs(role: Role) -> Any:
    """A dependency of routes: whoever asks has at least this role."""

    async def check(request: Request) -> Principal:
        principal = principal_in(request)
        if principal.role < role:
            raise not_enough(principal, role)
        return principal

    return Depends(check)


def principal_in(connection: HTTPConnection) -> Principal:
    """Who asks; only the gate says so."""
    return cast("Principal", connection.scope[_PRINCIPAL])


def principal_of(token: Token) -> Principal:
    return Principal(token.name, token.role)


def client_of(scope: Scope) -> str:
    """The address of whoever asks."""
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else "unknown"


def not_enough(principal: Principal, role: Role) -> Problem:
    """Whoever asks is known, and may not."""
    return Problem(
        403, "Not allowed", f"This needs the role {role}; {principal.name} has the role {principal.role}."
    )


def _ask_a_person(problem: Problem) -> Response:
    """A browser asks for name and password because of the header; the page is for whoever has neither."""
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Holdfast</title><h1>Holdfast</h1>"
        "<p>Please reload and sign in with the name and the secret of a token of this server.</p>"
        "<p>Whoever runs it has set them with HOLDFAST_WEB_PASSWORD, HOLDFAST_WEB_TOKENS or --token-file.</p>"
    )
    headers = {"WWW-Authenticate": 'Basic realm="Holdfast", charset="UTF-8"'}
    return HTMLResponse(page, problem.status_code, headers)
