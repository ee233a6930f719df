"""Where a project's database lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.embedded import places
from holdfast.embedded.account import server_account
from holdfast.errors import EmbeddedError


@pytest.fixture
def project(base: Path) -> Path:
    (base / "shop/app/tasks").mkdir(parents=True)
    (base / "shop/pyproject.toml").touch()
    return base / "shop"


def test_client_and_worker_find_the_same_from_anywhere_in_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: set[Path] = set()
    for place in (project, project / "app", project / "app/tasks"):
        monkeypatch.chdir(place)
        found.add(embedded.default_directory())
    assert found == {embedded.default_directory(project)}


@pytest.mark.parametrize("mark", ["pyproject.toml", "setup.py", "manage.py", ".git"])
def test_a_project_is_known_by_its_marks(base: Path, mark: str) -> None:
    (base / "site/deep").mkdir(parents=True)
    (base / "site" / mark).touch()
    assert places.project_root(base / "site/deep") == base / "site"


def test_without_a_project_each_directory_has_its_own(base: Path) -> None:
    for name in ("one/app", "two/app"):
        (base / name).mkdir(parents=True)
    assert embedded.default_directory(base / "one/app") != embedded.default_directory(base / "two/app")


def test_a_project_with_a_directory_for_it_keeps_its_database_there(project: Path) -> None:
    (project / ".holdfast").mkdir()
    assert embedded.default_directory(project / "app") == project / ".holdfast/pg"


def test_what_lies_above_the_project_is_not_looked_at(project: Path) -> None:
    (project.parent / ".holdfast").mkdir()
    assert embedded.default_directory(project).parent.parent == places.base_directory()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_left_alone(project: Path) -> None:
    (project / ".holdfast").mkdir()
    os.chown(project / ".holdfast", server_account().uid, -1)
    assert embedded.default_directory(project).parent.parent == places.base_directory()


def test_holdfast_home_is_where_databases_live(
    project: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(base / "home"))
    directory = embedded.default_directory(project)
    assert directory.parent.parent == base / "home"
    assert directory.parent.name.startswith("shop-")


def test_root_keeps_databases_with_the_system_and_others_at_home(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert places.base_directory() == Path("/var/lib/holdfast")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(base))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert places.base_directory() == base / ".local/share/holdfast"
    monkeypatch.setenv("XDG_DATA_HOME", str(base / "data"))
    assert places.base_directory() == base / "data/holdfast"


def test_one_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(_: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", classmethod(no_home))
    with pytest.raises(EmbeddedError, match="HOLDFAST_HOME"):
        places.base_directory()


def test_a_socket_lies_beside_the_data_or_where_its_path_is_short_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = places.Layout(Path("/srv/pg"))
    far = places.Layout(Path("/srv") / ("d" * 100))
    assert places.socket_directory(near) == near.sockets
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert places.socket_directory(far).parent == Path("/tmp")  # noqa: S108
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run")
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert places.socket_directory(far).parent == Path("/run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/" + "r" * 90)
    assert places.socket_directory(far).parent == Path("/tmp")  # noqa: S108
