"""Fixtures of several modules: a git repository that `kae init` made, and a project with its output."""

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import in_process, revisions
from tests.cli import diffs, fleet
from tests.cli.jobs import World


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    """A fleet whose main line holds one commit with everything compiled; not to be changed."""
    return World(tmp_path_factory.mktemp("begun"), repository_root).begin()


@pytest.fixture
def world(tmp_path: Path, repository_root: Path, begun: Path) -> World:
    """The fleet of the module's `begun`, which may be changed."""
    made = World(tmp_path, repository_root)
    made.shorten_pauses()
    shutil.copytree(begun, made.bare)
    return made


@pytest.fixture
def clone(world: World) -> Path:
    """A person's clone of that fleet."""
    return world.clone("clone")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose nodes meet every fate, and its output; nobody changes it."""
    return _compiled(fleet.full(tmp_path_factory.mktemp("fleet")))


@pytest.fixture(scope="session")
def compiled_small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that compiles without a word, and its output; nobody changes it."""
    return _compiled(fleet.small(tmp_path_factory.mktemp("small")))


@pytest.fixture
def small(compiled_small: Path, tmp_path: Path) -> Path:
    """A project that was compiled."""
    return shutil.copytree(compiled_small, tmp_path / "fleet")


@pytest.fixture(scope="session")
def committed_rollout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of docs/rollouts.md, committed; nobody changes it."""
    folder = shutil.copytree(diffs.EXAMPLE, tmp_path_factory.mktemp("rollout") / "fleet")
    revisions.commit(folder)
    return folder


@pytest.fixture
def rollout(committed_rollout: Path, tmp_path: Path) -> Path:
    """The example of docs/rollouts.md, committed: 24 nodes, two waves."""
    return shutil.copytree(committed_rollout, tmp_path / "fleet")


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what has standard input hold a text."""

    def pipe(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return pipe


def _compiled(folder: Path) -> Path:
    assert in_process.kae(folder, "compile").code == 0
    return folder
