"""What is said about the contenders is complete, and written down where people look."""

import re
import tomllib
from pathlib import Path

import pytest

from bench.peers.__main__ import settings_page, versions
from bench.peers.catalogue import PEERS, named
from bench.peers.environments import HERE, pinned
from bench.peers.peer import Peer

ON_PG = (
    "holdfast",
    "pgqueuer",
    "procrastinate",
    "chancy",
    "awa",
    "saq",
    "dbos",
    "graphile-worker",
    "pg-boss",
)
ON_REDIS = ("celery", "dramatiq", "huey", "rq", "arq", "taskiq")
ASKED_FOR = {*ON_PG, *ON_REDIS}

each_peer = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.key)


def test_every_contender_that_was_asked_for_is_there_once() -> None:
    keys = [peer.key for peer in PEERS]
    assert sorted(keys) == sorted(ASKED_FOR)


@each_peer
def test_every_contender_has_an_adapter(peer: Peer) -> None:
    assert (HERE / "adapters" / peer.adapter).is_file()


@each_peer
def test_every_setting_names_the_page_that_speaks_of_it(peer: Peer) -> None:
    assert peer.settings
    for setting in peer.settings:
        page = HERE.parent.parent / setting.source
        assert setting.source.startswith("https://") or page.is_file(), setting
        assert setting.why


@each_peer
def test_every_setting_that_an_adapter_reads_is_in_the_catalogue(peer: Peer) -> None:
    source = (HERE / "adapters" / peer.adapter).read_text()
    read = set(re.findall(r"SETTINGS(?:\[[\"']|\.get\([\"']|\.)(\w+)", source)) - {"get"}
    assert read <= set(peer.chosen())


@each_peer
def test_a_job_on_postgresql_counts_when_its_completion_is_committed(peer: Peer) -> None:
    assert (peer.unfinished is not None) == (peer.broker == "postgresql")


def test_every_version_is_pinned_in_one_file() -> None:
    for kinds in pinned().values():
        for packages in kinds.values():
            for package in packages:
                assert re.fullmatch(r"[\w\[\],.-]+(==|@)\d[\w.]*", package), package
    assert set(pinned()) == ASKED_FOR | {"node"}
    assert versions()["pgqueuer"].startswith("1.")


def test_the_page_of_settings_is_the_one_drawn_from_the_catalogue() -> None:
    assert (HERE / "SETTINGS.md").read_text() == settings_page()


def test_an_unknown_contender_is_refused_by_name() -> None:
    with pytest.raises(SystemExit, match="unknown: sidekiq"):
        named(["holdfast", "sidekiq"])


def test_nothing_of_this_is_in_the_wheel() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/holdfast"]
