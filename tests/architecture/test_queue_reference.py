"""The reference page of the queue is current, and both faces of the queue are one API."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from holdfast.queue.faces import Stream, SyncStream
from holdfast.queue.queue import Queue
from holdfast.queue.reference import public_methods, render
from holdfast.queue.sync_queue import SyncQueue

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "queue.md"


def test_the_page_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make schema`"


@pytest.mark.parametrize("kind", [Queue, SyncQueue, Stream, SyncStream])
def test_every_public_method_says_what_it_does(kind: type) -> None:
    assert [name for name, method in public_methods(kind).items() if not inspect.getdoc(method)] == []


def test_both_queues_have_the_same_methods_with_the_same_parameters() -> None:
    asynchronous, blocking = public_methods(Queue), public_methods(SyncQueue)
    assert set(asynchronous) == set(blocking)
    for name, method in asynchronous.items():
        assert inspect.signature(method).parameters == inspect.signature(blocking[name]).parameters, name


def test_both_streams_have_the_same_methods() -> None:
    asynchronous, blocking = set(public_methods(Stream)), set(public_methods(SyncStream))
    assert asynchronous - {"aclose"} == blocking - {"close"}
