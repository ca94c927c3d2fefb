"""Fixtures of several modules: a git repository that `kae init` made, and a project with its output."""

import shutil
from pathlib import Path

import pytest

from tests import in_process
from tests.cli import fleet
from tests.cli.test_init import World


@pytest.fixture
def world(tmp_path: Path, repository_root: Path, begun: Path) -> World:
    """The fleet of the module's `begun`, which may be changed."""
    found = World(tmp_path, repository_root)
    shutil.copytree(begun, found.bare)
    return found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose nodes meet every fate, and its output."""
    folder = fleet.full(tmp_path_factory.mktemp("fleet"))
    assert in_process.kae(folder, "compile").code == 0
    return folder
