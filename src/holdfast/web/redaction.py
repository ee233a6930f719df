"""What is shown of payloads and results: not the values under names that sound like secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from holdfast.console.shapes import Shape
from holdfast.domain.search import Argument, Query
from holdfast.web.problems import Problem

HIDDEN: Final = "[redacted]"


class Redaction:
    """Hides what stands under names that match, on the server, for everybody who did not ask as an admin."""

    def __init__(self, names: str) -> None:
        self._names = re.compile(names, re.IGNORECASE) if names else None

    def job(self, shape: Shape) -> Shape:
        """The same job with nothing secret in its payload and result."""
        return {**shape, "payload": self._of(shape["payload"]), "result": self._of(shape["result"])}

    def check(self, query: Query) -> None:
        """Raise if a query asks for a hidden value: whoever may ask often enough learns it."""
        for term in query.terms:
            if isinstance(term, Argument) and any(map(self._hides, term.path)):
                raise Problem(
                    403,
                    "Redacted",
                    f"Values of args.{'.'.join(term.path)} are redacted; an admin may ask with reveal=1.",
                )

    def _of(self, value: Any) -> Any:
        match value:
            case Mapping():
                return {
                    name: HIDDEN if self._hides(name) else self._of(each)
                    for name, each in cast("Mapping[str, Any]", value).items()
                }
            case str() | bytes():
                return value
            case Sequence():
                return [self._of(each) for each in cast("Sequence[object]", value)]
            case _:
                return value

    def _hides(self, name: str) -> bool:
        return self._names is not None and self._names.search(name) is not None
