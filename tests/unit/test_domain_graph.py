"""A circle of waiting jobs is found and named."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.graph import find_cycle

names = st.sampled_from("abcdefg")
graphs = st.dictionaries(names, st.lists(names, max_size=3))


def test_a_chain_has_no_cycle() -> None:
    assert find_cycle({"c": ["b"], "b": ["a"]}) is None


def test_two_ways_to_the_same_job_are_no_cycle() -> None:
    assert find_cycle({"d": ["b", "c"], "b": ["a"], "c": ["a"]}) is None


def test_a_job_that_waits_for_itself_is_a_cycle() -> None:
    assert find_cycle({"a": ["a"]}) == ["a", "a"]


def test_the_cycle_is_named_without_the_way_that_led_to_it() -> None:
    assert find_cycle({"start": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]}) == ["a", "b", "c", "a"]


def test_a_chain_longer_than_the_stack_is_followed_to_its_end() -> None:
    chain = {str(number): [str(number + 1)] for number in range(100_000)}

    assert find_cycle(chain) is None
    assert find_cycle({**chain, "100000": ["99999"]}) == ["99999", "100000", "99999"]


@given(graphs)
def test_what_is_named_is_a_cycle_of_the_graph(edges: dict[str, list[str]]) -> None:
    cycle = find_cycle(edges)

    if cycle is not None:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle[1:])) == len(cycle) - 1
        assert all(there in edges[here] for here, there in pairwise(cycle))


@given(graphs)
def test_none_means_that_the_jobs_can_be_finished_one_after_the_other(edges: dict[str, list[str]]) -> None:
    waiting = {name: set(parents) for name, parents in edges.items()}
    while ready := {name for name, parents in waiting.items() if not parents & waiting.keys()}:
        waiting = {name: parents for name, parents in waiting.items() if name not in ready}

    assert (find_cycle(edges) is None) == (not waiting)
