"""All that the tables say, and the difference between two moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tests.engine.jobs_in_state import Connection, query

Row: TypeAlias = Mapping[str, Any]

# Table or view, and the columns that tell its rows apart.
_TABLES: Final = {
    "jobs": "id",
    "archived_jobs": "id",
    "job_names": "name",
    "job_waits": "child_id, parent_id",
    "job_errors": "id",
    "holds": "kind, key, slot",
    "resources": "key",
    "queues": "name",
    "settings": "only_row",
    "jobs_trace": "trace_id",
    "job_details": "job_id",
}
_QUERY: Final = " union all ".join(
    f"select '{table}' as name, concat_ws('/', {key}) as key, to_jsonb(row) as row from holdfast.{table} row"
    for table, key in _TABLES.items()
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every row of every table, by table and key."""

    rows: Mapping[tuple[str, str], Row]

    def of(self, table: str) -> Iterator[Row]:
        return (row for (name, _), row in self.rows.items() if name == table)

    def job(self, job_id: str) -> Row | None:
        """The job as readers see it, live or archived."""
        return self.rows.get(("job_details", job_id))

    def stored(self, job_id: str) -> Row | None:
        """The job as it is stored, in whichever of the two tables."""
        job = self.job(job_id)
        number = str(job["number"]) if job else ""
        return self.rows.get(("jobs", number)) or self.rows.get(("archived_jobs", number))

    def changed(self, later: Snapshot) -> set[tuple[str, str]]:
        """What was added, removed or changed since."""
        keys = self.rows.keys() | later.rows.keys()
        return {key for key in keys if self.rows.get(key) != later.rows.get(key)}


def take(conn: Connection) -> Snapshot:
    return Snapshot({(row["name"], row["key"]): row["row"] for row in query(conn, _QUERY)})


def differing(before: Row | None, after: Row | None) -> set[str]:
    """The columns that changed. One that only one of two tables has counts as null in the other."""
    old, new = before or {}, after or {}
    return {column for column in old.keys() | new.keys() if old.get(column) != new.get(column)}
