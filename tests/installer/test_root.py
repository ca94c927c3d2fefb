"""Paths of the host: whatever its links lead to, the installer comes where the host's own programs would."""

import errno
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.host import root
from tests import effort
from tests.installer import linktrees


def naive(top: Path, path: str, *, last: bool, links: bool, depth: int = 0) -> Path:
    """Return the place of a path by the words of path_resolution(7); raise `OSError` where there is none."""
    if depth > 40:
        raise OSError(errno.ELOOP, path)
    here = top
    parts = [part for part in path.split("/") if part]
    for index, part in enumerate(parts):
        if not stat.S_ISDIR(here.lstat().st_mode):
            raise OSError(errno.ENOTDIR, path)
        if part == "..":
            here = here if here == top else here.parent
            continue
        below = here / part
        if below.is_symlink() and (last or index + 1 < len(parts)):
            if not links:
                raise OSError(errno.ELOOP, path)
            target = str(below.readlink())
            start = "" if target.startswith("/") else str(here.relative_to(top))
            rest = "/".join(parts[index + 1 :])
            return naive(top, f"{start}/{target}/{rest}", last=last, links=links, depth=depth + 1)
        here = below
    here.lstat()
    return here


def by_the_words(top: Path, path: str, *, last: bool, foreign: str) -> int:
    """Open what is at the place of a path, below `foreign` without a link."""
    if foreign:
        start = naive(top, foreign, last=True, links=True)
        if not start.is_dir():
            raise OSError(errno.ENOTDIR, path)
        path = f"/{start.relative_to(top)}/{path.removeprefix(foreign)}".replace("/./", "/")
    return os.open(naive(top, path, last=last, links=not foreign), os.O_PATH | os.O_NOFOLLOW)


@pytest.fixture(params=["openat2", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The system call, and what stands in for it where the kernel is older, or a seccomp profile forbids it."""
    if request.param == "walk":
        monkeypatch.setattr(root, "_OPENAT2", 999_999)
    return str(request.param)


@pytest.mark.parametrize("seed", range(effort.examples(gate=60, long=2000)))
def test_a_path_leads_where_it_does_on_the_host(seed: int, way: str, tmp_path: Path) -> None:
    draw, top = linktrees.draw(seed), tmp_path / "host"
    top.mkdir()
    (tmp_path / "a").mkdir()  # What a path comes to that leaves the root.
    linktrees.grow(draw, top)

    for _ in range(12):
        path, last, foreign = f"/{linktrees.words(draw)}", draw.random() < 0.7, ""
        if draw.random() < 0.4:
            path = os.path.normpath(path)  # As its words say.
            parts = path.split("/")
            foreign = "/".join(parts[: draw.randrange(len(parts)) + 1])
        flags = os.O_PATH | (0 if last else os.O_NOFOLLOW)

        found = linktrees.came_to(functools.partial(root.opened, top, path, flags, foreign=foreign))
        judged = linktrees.came_to(functools.partial(by_the_words, top, path, last=last, foreign=foreign))

        assert found == judged, (way, path, last, foreign)
        if not foreign and isinstance(found, tuple):
            place = root.local(top, path, last=last).lstat()
            assert (place.st_dev, place.st_ino) == found


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A root with the folder a/b, and a folder beside it."""
    top, other = tmp_path / "host", tmp_path / "other"
    (top / "a/b").mkdir(parents=True)
    other.mkdir()
    (other / "victim").touch()
    yield top, other


def test_who_renames_a_folder_meanwhile_leads_nobody_out(trees: tuple[Path, Path], way: str) -> None:
    top, other = trees
    with root.held(top, "/a/b/victim") as place:
        (top / "a/b").rename(top / "moved")
        (top / "a/b").symlink_to(other)
        place.touch()

    assert (way, (top / "moved/victim").exists()) == (way, True)


def test_folders_are_made_where_an_absolute_link_leads(trees: tuple[Path, Path], way: str) -> None:
    top, _ = trees
    (top / "data").mkdir()
    (top / "opt").symlink_to("/data")

    made = root.make(top, "/opt/x/y")

    assert (way, made, (top / "data/x/y").is_dir()) == (way, ("/opt/x", "/opt/x/y"), True)


def test_below_a_link_that_leads_nowhere_nothing_is_made(trees: tuple[Path, Path], way: str) -> None:
    top, other = trees
    (top / "opt").symlink_to(f"{other}/none")

    with pytest.raises(FileExistsError):
        root.make(top, "/opt/x")

    assert (way, list(other.iterdir())) == (way, [other / "victim"])
