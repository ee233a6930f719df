"""One language to say which jobs are meant, the same for commands, HTTP and pages.

    state:DEAD queue:mail task:send_* args.user:42 tag:eu error:"timed out" age>5m attempts>=3 -tag:test word

All terms must apply. Several values of one term are alternatives: `state:DEAD,STOPPED`. A leading minus means
not. `*` stands for anything; within quotes nothing is special but `\\"` and `\\\\`. Durations are written as
90s, 5m, 1h30m, 2d. Words of their own are looked for in the id, the task and the error.
"""

from holdfast.domain.search.meaning import possible_states, with_states
from holdfast.domain.search.parsing import parse
from holdfast.domain.search.terms import (
    Argument,
    Compares,
    Comparison,
    Field,
    Matches,
    Measure,
    Query,
    Term,
    Text,
    Word,
)

__all__ = [
    "Argument",
    "Compares",
    "Comparison",
    "Field",
    "Matches",
    "Measure",
    "Query",
    "Term",
    "Text",
    "Word",
    "parse",
    "possible_states",
    "with_states",
]
