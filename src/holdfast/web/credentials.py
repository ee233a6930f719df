"""Saying who one is: `Authorization: Bearer SECRET`, Basic with name and secret, or the cookie of a login.

Secrets are compared in constant time, and an address that has guessed too often has to wait. The cookie is
signed with the token's own secret: it needs no memory here, outlives a restart, and ends with its token.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections import OrderedDict, deque
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers

from holdfast.web.problems import Problem
from holdfast.web.settings import Token

COOKIE: Final = "holdfast_session"
SESSION_S: Final = 12 * 3600.0
GUESSES: Final = 10
GUESSES_WITHIN_S: Final = 60.0
MOST_ADDRESSES: Final = 10_000


class Guesses:
    """How often an address was wrong lately. It remembers so many addresses and no more."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise if this address has guessed too often."""
        wrong = self._wrong.get(address)
        since = time.monotonic() - GUESSES_WITHIN_S
        while wrong and wrong[0] < since:
            wrong.popleft()
        if wrong and len(wrong) >= GUESSES:
            wait_s = max(1, round(wrong[0] - since))
            raise Problem(
                429,
                "Too many guesses",
                f"Too many wrong credentials came from here; try again in {wait_s} s.",
                headers={"Retry-After": str(wait_s)},
            )

    def wrong(self, address: str) -> None:
        """Note a wrong guess."""
        self._wrong.setdefault(address, deque(maxlen=GUESSES)).append(time.monotonic())
        self._wrong.move_to_end(address)
        while len(self._wrong) > MOST_ADDRESSES:
            self._wrong.popitem(last=False)


class Credentials:
    """Find the token somebody comes with."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens
        self._guesses = Guesses()

    def of_request(self, headers: Headers, address: str) -> Token:
        """The token of a request; raise a Problem: none or a wrong one (401), too many wrong ones (429)."""
        authorization = headers.get("authorization")
        if authorization is None:
            return self._of_cookie(headers.get("cookie", ""))
        scheme, _, given = authorization.partition(" ")
        match scheme.lower():
            case "bearer":
                return self.of_secret(given.strip(), address)
            case "basic":
                name, secret = _basic(given.strip())
                return self.of_secret(secret, address, name)
            case _:
                raise unknown("Bearer and Basic are understood.")

    def of_secret(self, secret: str, address: str, name: str | None = None) -> Token:
        """The token with this secret, and this name if one is given."""
        self._guesses.check(address)
        found: Token | None = None
        for token in self._tokens:  # all of them, so that the time tells nothing
            same = hmac.compare_digest(token.secret.encode(), secret.encode(errors="replace"))
            if same and name in (None, token.name):
                found = token
        if found is None:
            self._guesses.wrong(address)
            raise unknown("These credentials are not known here.")
        return found

    def cookie_for(self, token: Token) -> str:
        """The value of a cookie that stands for this token for half a day."""
        told = _word(token.name.encode()) + "." + str(int(time.time() + SESSION_S))
        return f"{told}.{_seal(token, told)}"

    def _of_cookie(self, header: str) -> Token:
        try:
            morsel = SimpleCookie(header).get(COOKIE)
        except CookieError:
            morsel = None
        if morsel is None:
            raise unknown("Say who you are: a bearer token, name and secret, or a login.")
        told, _, seal = morsel.value.rpartition(".")
        name, _, until = told.partition(".")
        for token in self._tokens:
            if _word(token.name.encode()) == name and hmac.compare_digest(_seal(token, told), seal):
                if int(until) >= time.time():
                    return token
                break
        raise unknown("The session has ended: log in again.")


def unknown(detail: str) -> Problem:
    """Nobody knows who this is. No browser asks its user because of it: pages do that themselves."""
    return Problem(401, "Not authenticated", detail, headers={"WWW-Authenticate": 'Bearer realm="Holdfast"'})


def _seal(token: Token, told: str) -> str:
    return _word(hmac.digest(token.secret.encode(), f"holdfast session {told}".encode(), "sha256"))


def _word(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _basic(given: str) -> tuple[str, str]:
    try:
        name, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise unknown("The Basic credentials cannot be read.") from None
    return name, secret
