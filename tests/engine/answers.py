"""What callers of the engine's functions learn: how an answer is read, and in which words a refusal comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from holdfast.domain.states import JobState
from tests.engine.jobs_in_state import JOB

Row: TypeAlias = Mapping[str, Any]


class Refusal(StrEnum):
    """Why a call changes nothing."""

    NOT_FOUND = "not_found"
    LEASE_LOST = "lease_lost"
    WRONG_STATE = "wrong_state"
    ALREADY = "already"
    LAPSED = "lapsed"
    ID_TAKEN = "id taken"
    LEASE_MISSING = "lease missing"
    NOTHING_TO_DO = "nothing to do"


@dataclass(frozen=True, slots=True)
class Answer:
    """`word` is a verdict's reason or an error's SQLSTATE; `accepted` is None where a caller is not told."""

    accepted: bool | None
    word: str | None = None
    message: str = ""
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Manner:
    """How a function answers. A refusal for which it has no word is told by `accepted` alone."""

    read: Callable[[Sequence[Row]], Answer]
    words: Mapping[Refusal, str]


SQLSTATES: Final = {
    Refusal.NOT_FOUND: "HF001",
    Refusal.ID_TAKEN: "HF002",
    Refusal.WRONG_STATE: "HF003",
    Refusal.ALREADY: "HF003",
    Refusal.LEASE_LOST: "HF004",
    Refusal.LAPSED: "HF004",
    Refusal.LEASE_MISSING: "22023",
}
_INVALID: Final = {Refusal.LEASE_MISSING: "22023"}
_REASONS: Final = {reason: str(reason) for reason in Refusal}
_VERDICTS: Final = {
    Refusal.NOT_FOUND: "ended",
    Refusal.WRONG_STATE: "ended",
    Refusal.LEASE_LOST: "taken",
    Refusal.LAPSED: "lapsed",
}


def _value(rows: Sequence[Row]) -> Any:
    (row,) = rows
    return next(iter(row.values()))


def _no_error(rows: Sequence[Row]) -> Answer:
    value = _value(rows)
    return Answer(True, state=value if value in list(JobState) else None)


def _truth(rows: Sequence[Row]) -> Answer:
    return Answer(bool(_value(rows)))


def _listed(rows: Sequence[Row]) -> Answer:
    found = next((row for row in rows if row["job_id"] == JOB), None)
    return Answer(found is not None, state=found.get("state") if found else None)


def _verdict(rows: Sequence[Row]) -> Answer:
    (row,) = rows
    return Answer(row["ok"], row["reason"], state=row["state"])


def _refused_rows(rows: Sequence[Row]) -> Answer:
    refused = [row for row in rows if row["kind"] == "refused"]
    return Answer(False, refused[0]["reason"]) if refused else Answer(True)


def _extension(rows: Sequence[Row]) -> Answer:
    (row,) = rows
    return Answer(row["verdict"] in ("extended", "cancelling"), row["verdict"], state=row["state"])


def _cancellation(rows: Sequence[Row]) -> Answer:
    found = next((row for row in rows if row["job_id"] == JOB), None)
    return Answer(found is not None and found["cancelled"], state=found["state"] if found else None)


def _nothing(_: Sequence[Row]) -> Answer:
    return Answer(None)


RAISES: Final = Manner(_no_error, SQLSTATES)
"""An error, or what was asked for."""
LISTS_OR_RAISES: Final = Manner(_listed, SQLSTATES)
COUNTS_OR_RAISES: Final = Manner(_truth, SQLSTATES)
TRUTH: Final = Manner(_truth, _INVALID)
"""Whether something changed, as a boolean or a number."""
LISTS: Final = Manner(_listed, _INVALID)
"""The jobs that changed."""
VERDICT: Final = Manner(_verdict, _REASONS)
REFUSED_ROWS: Final = Manner(_refused_rows, _REASONS)
EXTENSION: Final = Manner(_extension, _VERDICTS)
CANCELLATION: Final = Manner(_cancellation, _INVALID)
SAYS_NOTHING: Final = Manner(_nothing, {})
