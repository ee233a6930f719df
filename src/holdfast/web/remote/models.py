"""What is answered beside a stream, for the document of the API."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from holdfast.domain.outcome import Reason
from holdfast.domain.states import JobState
from holdfast.store.values import Hold
from holdfast.web.models import Answer


class Alive(Answer):
    """A stream that is open."""

    stream: str
    held: int = Field(description="How many jobs it holds, arrived or on their way.")


class Arrival(Answer):
    job_id: str
    ok: bool = Field(description="Whether it is yours: then begin. Otherwise forget it.")


class Arrivals(Answer):
    """One for each job, in the order given."""

    verdicts: list[Arrival]


class Settled(Answer):
    job_id: str
    ok: bool = Field(description="Whether it is as you said; it may have been so before, as `reason` tells.")
    state: JobState | None = Field(description="Where it stands now.")
    reason: Reason


class Verdicts(Answer):
    """One for each result, in the order given."""

    verdicts: list[Settled]


class Extended(Answer):
    job_id: str
    hold: Hold = Field(
        description="extended; cancelling: extended, but to be stopped; lapsed: too late, yet nobody has it; "
        "taken: somebody else's, or handed back; ended."
    )
    state: JobState | None
    lease_expires_at: datetime | None


class Extensions(Answer):
    """One for each job, in the order given."""

    verdicts: list[Extended]
