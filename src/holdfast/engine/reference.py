"""The reference page of the engine's functions, drawn from the headers and signatures of their own files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.engine.source import Source, shipped

_FUNCTION = re.compile(
    r"(?P<header>(?:^--[^\n]*\n)+)create or replace function (?P<signature>(?P<name>[a-z]\w*)\(.*?)"
    r"\nlanguage (?P<kind>[^$]*?)\nas \$\$",
    re.DOTALL | re.MULTILINE,
)
_GRANTS = re.compile(r"\('(\w+)', array\[(.*?)\]\)", re.DOTALL)

_HEAD = """\
# SQL reference

Written by `make schema` from the files in `src/holdfast/engine/functions/`; change it there. Call
functions with named arguments: further parameters may come behind these, with defaults. Names below are
without the schema (`holdfast` unless you chose another). Ids and lease ids are text; durations are
seconds; times are compared with the database's clock. Every function is one statement of your own
transaction.

## Errors

| SQLSTATE | means |
|---|---|
| `22023` | a value that cannot be; nothing was changed |
| `HF001` | there is no such job |
| `HF002` | the id is taken, by a live or by a finished job |
| `HF003` | the job is in a state this operation does not start from (see [the lifecycle](../lifecycle.md)) |
| `HF004` | the caller does not hold the job, or not any more |

## Verdicts

`settle_jobs` and `settle_and_claim` raise no error for a job that cannot be settled; they answer for
each: `settled`; `lease_lost` (another has claimed it, or it was handed back); `already` (this very lease
settled it so: the first reply was lost); `wrong_state`; `not_found`. `extend_leases` answers `extended`,
`cancelling` (extended too), `lapsed`, `taken` or `ended`.

## Signals

With notify on, `NOTIFY` on `<schema>.need.<queue>` says that a job may be ready (payload: its id if it is
one, else empty), and on `<schema>.freed` that somebody ended a job of another's stream. Both are hints;
polling alone is correct.

## Roles

| role | may |
|---|---|
| `holdfast_producer` | put jobs in line |
| `holdfast_worker` | run jobs, and submit |
| `holdfast_viewer` | see everything, change nothing |
| `holdfast_admin` | everything but tables |

Roles belong to the server and are shared by every installation on it. Each function below says who may
call it; the owner always may.

## Views

`jobs_with_status` (live jobs), `jobs_archive` (finished ones), `job_details` (both),
`jobs_friendly_status` (a sentence per live job), and the table `jobs_trace`. Their columns are listed in
[schema.sql](../../src/holdfast/engine/schema.sql).
"""

_TITLES = {
    "10_settings.sql": "Switches",
    "45_waiters.sql": "Dependencies",
    "50_submit.sql": "Put jobs in line",
    "55_claim.sql": "Take jobs",
    "60_settle.sql": "Settle jobs",
    "62_verbs.sql": "Settle one job",
    "65_lease.sql": "Leases, and jobs nobody holds",
    "70_cancel.sql": "Cancel, revive, pause",
    "75_reads.sql": "Look",
    "80_delete.sql": "Forget",
    "85_resources.sql": "Resources",
}


def render(source: Source | None = None) -> str:
    """The whole page."""
    source = source or shipped()
    roles = _roles(next(file.sql for file in source.functions if file.name == "90_roles.sql"))
    parts = [_HEAD]
    for file in source.functions:
        functions = list(_functions(file.sql, roles))
        if functions:
            parts.append(f"## {_TITLES[file.name]}\n")
            parts.extend(functions)
    return "\n".join(parts)


def _functions(sql: str, roles: dict[str, list[str]]) -> Iterator[str]:
    for found in _FUNCTION.finditer(sql):
        name, header = found["name"], found["header"]
        text = " ".join(line.removeprefix("--").strip() for line in header.splitlines())
        callers = ", ".join([*roles.get(name, []), "admin"])
        yield f"### {name}\n\n{text}\n\n```sql\n{found['signature']}\n```\n\nMay be called by: {callers}.\n"


def _roles(sql: str) -> dict[str, list[str]]:
    roles: dict[str, list[str]] = {}
    for role, routines in _GRANTS.findall(sql):
        for routine in re.findall(r"'(\w+)'", routines):
            roles.setdefault(routine, []).append(role)
    return roles


if __name__ == "__main__":
    print(render(), end="")
