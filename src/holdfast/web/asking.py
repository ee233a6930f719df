"""What may be asked for in a body, and the parameters that several routes share."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from holdfast.console.bulk import Action
from holdfast.domain import search
from holdfast.domain.job import Content, JsonValue, NewJob
from holdfast.errors import InvalidArgument
from holdfast.web.access import principal_in
from holdfast.web.problems import Problem
from holdfast.web.redaction import Redaction
from holdfast.web.settings import Role

INTEGER: Final = 2**31 - 1
BATCH: Final = 1000


def _moment(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("a moment is text, as in 2027-01-31T09:30:00Z")
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a moment needs a time zone, as in 2027-01-31T09:30:00Z")
    return moment


def _whole(value: object) -> object:
    """JSON knows one kind of number: 3.0 is as whole as 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
Moment = Annotated[
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
QueueName = Annotated[str, Field(min_length=1, max_length=40, description="At most 40 bytes of UTF-8.")]
Reason = Annotated[str, Field(min_length=1, max_length=1000)]


class Body(BaseModel):
    """Nothing is guessed: what is not known is refused, and a number is no text."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewJobBody(Body):
    """A job to put in line. What it carries is `args`, as a task takes them, or `payload`, as it is."""

    job_id: Name | None = Field(None, description="An id of your own, unique for ever; else one is made.")
    queue: QueueName = "default"
    task: Name | None = None
    args: list[Any] | dict[str, Any] | None = Field(None, description="By place or by name.")
    payload: Any = None
    payload_bytes: str | None = Field(None, description="Instead of a payload: bytes as base64.")
    priority: Whole = Field(0, ge=-INTEGER - 1, le=INTEGER, description="Larger is sooner.")
    tags: list[Name] = Field(default=[], max_length=100)
    available_at: Moment | None = None
    delay_s: float | None = Field(None, ge=0, le=3_000_000_000, allow_inf_nan=False)
    expires_at: Moment | None = None
    max_attempts: Whole | None = Field(None, ge=1, le=INTEGER)
    resource_keys: list[Name] = Field(default=[], max_length=100)
    singleton_key: Name | None = None
    wait_for: list[Name] = Field(default=[], max_length=1000)
    if_parent_fails: Literal["wait", "cancel", "run"] | None = None
    timeout_s: float | None = Field(None, gt=0, le=3_000_000_000, allow_inf_nan=False)
    retry: dict[str, Any] | None = None

    def job(self) -> NewJob:
        """The same for the engine."""
        given = self.model_dump(exclude={"args", "payload", "payload_bytes"})
        return NewJob(**given, payload=self._content())

    def _content(self) -> Content:
        named = [name for name in ("args", "payload", "payload_bytes") if getattr(self, name) is not None]
        if len(named) > 1:
            raise InvalidArgument(f"{' and '.join(named)}: a job carries one of them")
        if self.payload_bytes is not None:
            try:
                return base64.b64decode(self.payload_bytes, validate=True)
            except (binascii.Error, ValueError):
                raise InvalidArgument("payload_bytes is not base64") from None
        if self.args is None:
            payload: JsonValue = self.payload
            return payload
        by_place = self.args if isinstance(self.args, list) else []
        by_name = self.args if isinstance(self.args, dict) else {}
        return {"args": by_place, "kwargs": by_name}


class BatchBody(Body):
    """Jobs to put in line, all or none; they may wait for each other."""

    jobs: list[NewJobBody] = Field(min_length=1, max_length=BATCH)


class ReasonBody(Body):
    """Why; it is kept with the job."""

    reason: Reason | None = None


class BulkBody(Body):
    """First a dry run, which counts and gives a snapshot; then the same with it, and `dry_run` false."""

    action: Literal["cancel", "revive", "delete"]
    q: str = Field(min_length=1, max_length=2000)
    dry_run: bool = True
    snapshot: str | None = Field(None, max_length=100)
    reason: Reason | None = None

    @property
    def act(self) -> Action:
        """What the console calls it."""
        return Action.RETRY if self.action == "revive" else Action(self.action)


class CapacityBody(Body):
    """How many jobs may hold a resource at once."""

    capacity: Whole = Field(ge=1, le=INTEGER)


class LimitBody(Body):
    """The most jobs of a queue that may be held at once; null: no limit."""

    limit: Whole | None = Field(ge=1, le=INTEGER)


class LoginBody(Body):
    """The secret of a token."""

    token: str = Field(min_length=1, max_length=1000)


def _redaction(request: Request, reveal: Annotated[Literal["0", "1"], Query()] = "0") -> Redaction:
    """What is hidden from whoever asks: nothing from an admin who says so."""
    if reveal == "0":
        redaction: Redaction = request.app.state.redaction
        return redaction
    if principal_in(request).role < Role.ADMIN:
        raise Problem(403, "Not allowed", "Only an admin may see what is redacted.")
    return Redaction("")


Shown = Annotated[Redaction, Depends(_redaction)]


def _query(
    shown: Shown,
    q: Annotated[str, Query(max_length=2000, description="As in `state:DEAD task:send_* age>5m`.")] = "",
) -> search.Query:
    """Which jobs are meant; nobody finds by a value what they may not see."""
    query = search.parse(q)
    shown.check(query)
    return query


Wanted = Annotated[search.Query, Depends(_query)]
