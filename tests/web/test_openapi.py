"""The document of the API is current and complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.web.app import create_app
from holdfast.web.document import render
from holdfast.web.settings import WebSettings

FILE = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    drawn: dict[str, Any] = create_app(WebSettings()).openapi()
    return drawn


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_committed_document_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "run: make schema"


def test_every_answer_and_every_problem_is_documented(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        answers = operation["responses"]
        assert operation.get("description"), (method, path)
        assert any(status.startswith("2") for status in answers), (method, path)
        for status, answer in answers.items():
            assert answer["description"], (method, path, status)
            kinds = set(answer["content"])
            if int(status) >= 400:
                assert kinds == {"application/problem+json"}, (method, path, status)
            else:
                assert len(kinds) == (2 if path == "/api/streams" else 1), (method, path)
                assert all(kind["schema"] for kind in answer["content"].values()), (method, path, status)
        if path != "/livez":
            assert {"400", "401", "403", "422", "429", "503"} <= set(answers), (method, path)
        if method != "get":
            assert {"408", "413", "415"} <= set(answers), (method, path)


def test_the_document_refers_to_nothing_that_is_not_in_it(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    named = set(document["components"]["schemas"])
    referred = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert referred == named
