"""Paths and globs on the host, of which the plugin sees some folders at another place."""

from pathlib import Path

import pytest

from device_plugin.host import paths, resources
from tests.device_plugin import hosts, settings


@pytest.fixture
def where(tmp_path: Path) -> paths.Paths:
    """A host with two versions of a stack, and a link to each kind of place."""
    where = settings.where(hosts.Host(tmp_path))
    for name in ("opt/stack-1/lib/a.so", "opt/stack-1/lib/b.so", "opt/stack-1/lib/.hidden.so", "opt/stack-2/lib/a.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "opt/absolute").symlink_to("/opt/stack-1")
    (tmp_path / "opt/relative").symlink_to("../opt/./stack-1")
    (tmp_path / "opt/chain").symlink_to("absolute/lib")
    (tmp_path / "opt/elsewhere").symlink_to("/nonexistent")
    (tmp_path / "opt/circle").symlink_to("circle")
    return where


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("/opt/stack-1/lib/*.so", ["/opt/stack-1/lib/a.so", "/opt/stack-1/lib/b.so"]),
        ("/opt/stack-*/lib/a.so", ["/opt/stack-1/lib/a.so", "/opt/stack-2/lib/a.so"]),
        ("/opt/absolute/lib/?.so", ["/opt/absolute/lib/a.so", "/opt/absolute/lib/b.so"]),
        ("/opt/relative/lib/[!b].so", ["/opt/relative/lib/a.so"]),
        ("/opt/chain/a.so", ["/opt/chain/a.so"]),
        ("/opt/stack-1", ["/opt/stack-1"]),
        ("/opt/elsewhere", []),
        ("/opt/elsewhere/*", []),
        ("/opt/circle", []),
        ("/opt/circle/*", []),
        ("/opt/stack-1/lib/a.so/*", []),
        ("/dev/none", []),
    ],
)
def test_globs_are_walked_and_links_followed_as_on_the_host(where: paths.Paths, glob: str, found: list[str]) -> None:
    assert resources.matches(where, glob) == found


def test_a_link_that_leaves_the_root_stays_below_it_as_on_the_host(where: paths.Paths, tmp_path: Path) -> None:
    (tmp_path / "opt/up").symlink_to("../../../../opt/stack-1")

    assert resources.real(where, "/opt/up/lib") == "/opt/stack-1/lib"


@pytest.mark.parametrize(
    ("glob", "folders"),
    [
        ("/dev/onload", [("/dev", "onload")]),
        ("/dev/npu*", [("/dev", "npu")]),
        ("/dev/snd/pcmC[0-9]D0", [("/dev", "snd"), ("/dev/snd", "pcmC")]),
        ("/dev/card*/npu", [("/dev", "card")]),
    ],
)
def test_the_folders_to_watch_are_those_above_the_first_wildcard(glob: str, folders: list[tuple[str, str]]) -> None:
    assert list(resources.watched(glob)) == folders
