"""Where the server listens and whom it lets in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address
from typing import Final

from holdfast import config
from holdfast.errors import InvalidArgument

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8420
REDACTED_NAMES: Final = "pass|secret|token|key|authorization|cookie"
SECRET_LENGTH: Final = 12
"""Shorter secrets are refused: they could be guessed."""


class Role(IntEnum):
    """What somebody may do: each may do what those below it may."""

    VIEWER = 1
    """Look."""
    OPERATOR = 2
    """Submit, cancel and revive jobs, pause queues, work."""
    ADMIN = 3
    """Delete jobs, change limits and capacities, see what is redacted."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Token:
    """Who comes with this secret, and what they may do. Nothing shows the secret."""

    role: Role
    name: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebSettings:
    """All that can be said about a server. Raises InvalidArgument where it would stand open."""

    dsn: str | None = field(default=None, repr=False)
    schema: str = config.DEFAULT_SCHEMA
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    tokens: tuple[Token, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    """Names by which the server may be called, besides its own address and those of loopback."""
    redact: str = REDACTED_NAMES
    """Values under names that match are shown to nobody but an admin who asks for them; empty: all are."""

    def __post_init__(self) -> None:
        if not self.tokens and not is_loopback(self.host):
            raise InvalidArgument(
                f"{self.host} can be reached from other machines, and nobody would have to say who they are: "
                "set HOLDFAST_WEB_PASSWORD, or HOLDFAST_WEB_TOKENS='admin:NAME:SECRET', pass --token-file, "
                f"or listen on {DEFAULT_HOST}"
            )
        if not self.tokens and (names := [name for name in self.allow_hosts if not is_loopback(name)]):
            raise InvalidArgument(
                f"a server that is called {names[0]} is reached by others, through a proxy, and nobody would "
                "have to say who they are: set HOLDFAST_WEB_PASSWORD, or "
                "HOLDFAST_WEB_TOKENS='admin:NAME:SECRET', or pass --token-file"
            )
        try:
            re.compile(self.redact)
        except re.error as error:
            raise InvalidArgument(f"the names to redact are no regular expression: {error}") from error
        names = [token.name for token in self.tokens]
        if twice := {name for name in names if names.count(name) > 1}:
            raise InvalidArgument(f'two tokens have the name "{min(twice)}": give each a name of its own')

    @property
    def is_open(self) -> bool:
        """Whether whoever reaches it is an admin: on loopback, as long as no token is set."""
        return not self.tokens


def read_tokens(words: Iterable[str]) -> tuple[Token, ...]:
    """Tokens written as `role:name:secret`; raise InvalidArgument, which never shows a secret."""
    return tuple(_token(word, place) for place, word in enumerate(words, start=1))


def _token(word: str, place: int) -> Token:
    role, first, rest = word.partition(":")
    name, second, secret = rest.partition(":")
    if not (first and second and name):
        raise InvalidArgument(f"token {place} is not written as role:name:secret")
    if role.upper() not in Role.__members__:
        raise InvalidArgument(f"token {place}: the role is viewer, operator or admin")
    if len(secret) < SECRET_LENGTH:
        raise InvalidArgument(f'token "{name}": its secret needs at least {SECRET_LENGTH} characters')
    return Token(Role[role.upper()], name, secret)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
