"""The fixture of a git repository that `kae init` made, for the tests of its jobs."""

import shutil
from pathlib import Path

import pytest

from tests.cli.test_init import World


@pytest.fixture
def world(tmp_path: Path, repository_root: Path, begun: Path) -> World:
    """The fleet of the module's `begun`, which may be changed."""
    found = World(tmp_path, repository_root)
    shutil.copytree(begun, found.bare)
    return found
