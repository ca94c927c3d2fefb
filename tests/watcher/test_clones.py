"""The clone in the scratch folder: what is in it, and that its loss is none."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.watcher import remotes
from watcher.git import git_errors

PATH, PUSHED = remotes.PATH, remotes.PUSHED


def clone_of(scratch: Path) -> Path:
    (found,) = scratch.glob("clone-*/git")
    return found


def test_a_repository_that_is_deleted_says_so_and_goes_on_when_it_is_remade(tmp_path: Path) -> None:
    remote = remotes.Remote(tmp_path / "remote.git")
    repo = remote.ours()
    remotes.publish(repo, b"new\n")
    shutil.rmtree(remote.path)

    with pytest.raises(git_errors.NotFound, match=f"^The repository '{remote.url}' is not there, or not for these"):
        remotes.publish(repo, b"new\n")
    remade = remotes.Remote(tmp_path / "remote.git")
    remotes.publish(repo, b"new\n")

    assert remade.changed("main") == PUSHED
    assert len(remade.history()) == 2
    remade.assert_sound()


@pytest.mark.parametrize(("first", "second"), [("sha1", "sha256"), ("sha256", "sha1")])
def test_a_repository_may_come_back_with_another_object_format(tmp_path: Path, first: str, second: str) -> None:
    remote = remotes.Remote(tmp_path / "remote.git", object_format=first)
    repo = remote.ours()
    remotes.publish(repo, b"new\n")
    shutil.rmtree(remote.path)
    remade = remotes.Remote(tmp_path / "remote.git", object_format=second)

    remotes.publish(repo, b"new\n")

    assert remade.changed("main") == PUSHED


def test_nobody_elses_bytes_are_fetched(remote: remotes.Remote, tmp_path: Path) -> None:
    remote.commit("main", {PATH: b"old\n"})
    repo = remote.ours()

    remotes.publish(repo, b"new\n")
    repo.hold(b"held\n", "held")

    here = clone_of(tmp_path / "scratch-east")
    objects = remotes.git("--git-dir", str(here), "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
    assert objects.splitlines().count("blob") == 3


def test_a_server_without_partial_clones_serves_too(remote: remotes.Remote, tmp_path: Path) -> None:
    remote.configure("uploadpack.allowFilter", "false")

    remotes.publish(remote.ours(), b"new\n")

    assert remote.changed("main") == PUSHED


def test_a_clone_does_not_grow_for_ever(remote: remotes.Remote, tmp_path: Path) -> None:
    repo = remote.ours()
    remotes.publish(repo, b"0\n")
    here = clone_of(tmp_path / "scratch-east")

    for number in range(60):
        repo._clone.add(f"{number:040}")
    remotes.publish(repo, b"1\n")

    objects = remotes.git("--git-dir", str(here), "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
    assert objects.splitlines().count("commit") == 2


def damage_nothing(scratch: Path) -> None:
    """A clone as an earlier process left it."""


def damage_by_deletion(scratch: Path) -> None:
    shutil.rmtree(scratch)


def damage_the_clone_by_deletion(scratch: Path) -> None:
    shutil.rmtree(clone_of(scratch))


def damage_the_objects(scratch: Path) -> None:
    for path in clone_of(scratch).glob("objects/*/*"):
        path.chmod(0o600)
        path.write_bytes(b"")


def damage_by_locks(scratch: Path) -> None:
    clone = clone_of(scratch)
    for name in ("shallow", "config", "HEAD", "packed-refs", "refs/fetched/tip"):
        (clone / f"{name}.lock").write_text("")


def damage_the_configuration(scratch: Path) -> None:
    (clone_of(scratch) / "config").write_text("[core\n")


def damage_the_head(scratch: Path) -> None:
    (clone_of(scratch) / "HEAD").write_text("")


@pytest.mark.parametrize("again", [False, True], ids=["same process", "next process"])
@pytest.mark.parametrize(
    "damage",
    [
        damage_nothing,
        damage_by_deletion,
        damage_the_clone_by_deletion,
        damage_the_objects,
        damage_by_locks,
        damage_the_configuration,
        damage_the_head,
    ],
)
def test_a_damaged_clone_is_made_anew(
    remote: remotes.Remote, tmp_path: Path, damage: Callable[[Path], None], again: bool
) -> None:
    repo = remote.ours()
    remotes.publish(repo, b"old\n")
    damage(tmp_path / "scratch-east")
    remote.commit("main", {"other.txt": b"moved\n"})

    remotes.publish(remote.ours() if again else repo, b"new\n")

    assert remote.read("main", PATH) == b"new\n"
    assert remote.changed("main") == PUSHED
    assert len(list((tmp_path / "scratch-east").iterdir())) == 1


def test_a_damaged_repository_is_not_tried_for_ever(tmp_path: Path) -> None:
    remote = remotes.Remote(tmp_path / "remote.git")
    for path in remote.path.glob("objects/*/*"):
        path.chmod(0o600)
        path.write_bytes(b"")

    with pytest.raises(git_errors.Failed):
        remote.ours().fetch()


KILLED = """
import sys, threading
from pathlib import Path
from tests.watcher import remotes
from watcher.git import repository
folder = Path(sys.argv[2])
secrets, stop = remotes.secrets(folder / "secrets"), threading.Event()
repo = repository.Repository(remotes.target(sys.argv[1]), folder / "scratch", secrets, stop, remotes.TIMING)
for number in range(1_000_000):
    remotes.publish(repo, f"{sys.argv[3]} {number}\\n".encode())
    print(number, flush=True)
"""


def test_a_process_that_is_killed_at_any_point_leaves_nothing_in_the_way(
    remote: remotes.Remote, tmp_path: Path
) -> None:
    root = Path(__file__).resolve().parents[2]
    for life in range(5):
        command = [sys.executable, "-c", KILLED, remote.url, str(tmp_path), str(life)]
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            # It has proved that it works; the moment of its end is another one each time.
            assert process.stdout.readline() == b"0\n"
            time.sleep(0.03 * life)
            process.kill()

    remotes.publish(remote.ours(scratch=tmp_path / "scratch"), b"last\n")

    assert remote.read("main", PATH) == b"last\n"
    changed = {line for commit in remote.history()[:-1] for line in remote.changed(commit)}
    assert changed == set(PUSHED)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk takes root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("room", [0, 40_000, 150_000])
def test_a_full_disk_is_told_and_its_end_is_enough(
    remote: remotes.Remote, tmp_path: Path, small_disk: Path, room: int
) -> None:
    tip = remote.commit("main", {PATH: os.urandom(100_000)})
    repo = remote.ours(scratch=small_disk / "scratch")
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError):
        ballast.write_bytes(bytes(512 * 1024))
    os.truncate(ballast, ballast.stat().st_size - room)
    content = os.urandom(200_000)

    with pytest.raises(git_errors.DiskFull, match=r"^The disk of the scratch folder .*full"):
        remotes.publish(repo, content)
    ballast.unlink()
    remotes.publish(repo, content)

    assert remote.parents("main") == [tip]
