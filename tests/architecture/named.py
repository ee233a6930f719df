"""Whether what a page names exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED_TEST = re.compile(r"tests/[\w/]+\.py::\w+")


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def is_a_test(named: str) -> bool:
    path, _, name = named.partition("::")
    file = ROOT / path
    if not NAMED_TEST.fullmatch(named) or not file.is_file():
        return False
    # A function, or a class or name that pytest collects, such as a state machine's TestCase.
    definition = rf"^\s*(async )?def {name}\(|^class {name}\b|^{name} = "
    return re.search(definition, text_of(file), re.MULTILINE) is not None


def dead_links(page: str) -> list[str]:
    """The links of a page, given by its path from the root, that lead to no file or no heading."""
    here = ROOT / page
    links = re.findall(r"\]\((?!http)([^)]+)\)", text_of(here))
    return [link for link in links if not _leads_somewhere(here, link)]


def _leads_somewhere(here: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = here.parent / path if path else here
    return target.exists() and (not anchor or anchor in _anchors(text_of(target)))


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
