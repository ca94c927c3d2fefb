"""Repositories as several tests want them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.watcher import remotes, servers


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[remotes.Remote]:
    """A repository with a commit, in which fsck finds nothing at the end either."""
    made = remotes.Remote(tmp_path / "remote.git")
    yield made
    made.assert_sound()


@pytest.fixture
def web(remote: remotes.Remote) -> Iterator[servers.Web]:
    with servers.web(remote.path.parent) as server:
        yield server
