"""The reference page of the engine's functions: what people wrote about them, and what their own files say.

`docs/reference/sql.in.md` puts the functions in the order in which readers need them, with errors and
examples. Behind each heading that names a function come its header, its signature and who may call it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.engine.source import Source, shipped

WRITTEN = Path(__file__).parents[3] / "docs" / "reference" / "sql.in.md"

_FUNCTION = re.compile(
    r"(?P<header>(?:^--[^\n]*\n)+)create or replace function (?P<signature>(?P<name>[a-z]\w*)\(.*?)"
    r"\nlanguage (?P<kind>[^$]*?)\nas \$\$",
    re.DOTALL | re.MULTILINE,
)
_GRANTS = re.compile(r"\('(\w+)', array\[(.*?)\]\)", re.DOTALL)
_SPECIFICATION = re.compile(r"^Seed \d{3}: ")
_HEADING = re.compile(r"### ([a-z_]+)")
_COLUMNS = re.compile(r"\{\{columns (\w+)\}\}")


def render(source: Source | None = None, written: str | None = None) -> str:
    """The whole page. A function without a heading, or a heading without a function, is a KeyError."""
    source = source or shipped()
    drawn, columns = dict(_drawn(source)), dict(_columns(source))
    lines: list[str] = []
    for line in (written or WRITTEN.read_text(encoding="utf-8")).splitlines():
        if heading := _HEADING.fullmatch(line):
            lines += [line, "", drawn.pop(heading[1])]
        elif wanted := _COLUMNS.fullmatch(line):
            lines.append(columns[wanted[1]])
        else:
            lines.append(line)
    if drawn:
        raise KeyError(f"sql.in.md has no heading for: {', '.join(sorted(drawn))}")
    return "\n".join(lines) + "\n"


def _drawn(source: Source) -> Iterator[tuple[str, str]]:
    """Each public function with what its file says about it."""
    callers = _callers(next(file.sql for file in source.functions if file.name == "90_roles.sql"))
    for file in source.functions:
        for found in _FUNCTION.finditer(file.sql):
            name = found["name"]
            text = " ".join(line.removeprefix("--").strip() for line in found["header"].splitlines())
            text = _SPECIFICATION.sub("", text)
            text = text[0].upper() + text[1:]
            who = ", ".join([*callers.get(name, []), "admin"])
            yield name, f"{text}\n\n```sql\n{found['signature']}\n```\n\nMay be called by: {who}."


def _callers(sql: str) -> Mapping[str, list[str]]:
    callers: dict[str, list[str]] = {}
    for role, routines in _GRANTS.findall(sql):
        for routine in re.findall(r"'(\w+)'", routines):
            callers.setdefault(routine, []).append(role)
    return callers


def _columns(source: Source) -> Iterator[tuple[str, str]]:
    """Each view with its columns and their types."""
    for signature in source.signatures:
        if signature.startswith("view "):
            view, _, listed = signature.removeprefix("view ").partition(": ")
            named = (column.partition(" ") for column in listed.split(", "))
            yield view, " · ".join(f"`{name}` {kind}" for name, _, kind in named)


if __name__ == "__main__":
    print(render(), end="")
