"""Output on a real disk: written, pruned, compared; and never anybody else's."""

import errno
import fcntl
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler import errors
from compiler.output import index_file, scan, tree, write
from tests import effort

OLD = tree.Tree.of("east", {"kept.yaml": "kept\n", "changed.yaml": "old\n", "gone/x.yaml": "x\n"})
NEW = tree.Tree.of("east", {"kept.yaml": "kept\n", "changed.yaml": "new\n", "added/y.yaml": "y\n"})


def texts(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path != folder / "index.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes().decode() for path in files}


def shape(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the inodes and times below a folder, which any write there would change."""
    return {path.as_posix(): (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in [folder, *folder.rglob("*")]}


def test_a_tree_is_written_with_its_index(tmp_path: Path) -> None:
    write.write_trees(tmp_path / "output", [NEW])

    assert texts(tmp_path / "output/east") == dict(NEW.files)
    assert (tmp_path / "output/east/index.json").read_text() == NEW.index_content().decode()
    assert scan.state(tmp_path / "output", NEW).kind == "fine"


def test_a_second_tree_replaces_the_first_and_leaves_no_empty_folder(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [OLD])
    (done,) = write.write_trees(tmp_path, [NEW])

    assert (done.written, done.removed) == (("added/y.yaml", "changed.yaml"), ("gone/x.yaml",))
    assert texts(tmp_path / "east") == dict(NEW.files)
    assert not (tmp_path / "east/gone").exists()


def test_where_nothing_differs_nothing_is_written(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [NEW])
    before = shape(tmp_path)
    (done,) = write.write_trees(tmp_path, [NEW])

    assert (done.written, done.removed, shape(tmp_path)) == ((), (), before)


def test_an_unchanged_file_keeps_its_inode_and_time(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [OLD])
    before = (tmp_path / "east/kept.yaml").stat()
    write.write_trees(tmp_path, [NEW])
    after = (tmp_path / "east/kept.yaml").stat()

    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_files_are_readable_for_all_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    write.write_trees(tmp_path, [NEW])
    os.umask(umask)

    assert (tmp_path / "east/kept.yaml").stat().st_mode & 0o777 == 0o644


def test_a_state_changes_nothing(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [OLD])
    before = shape(tmp_path)
    state = scan.state(tmp_path, NEW)

    assert (state.kind, shape(tmp_path)) == ("old", before)
    assert scan.state(tmp_path / "absent", NEW).kind == "old"
    assert not (tmp_path / "absent").exists()


def test_an_edited_file_is_seen_and_written_again(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [NEW])
    (tmp_path / "east/kept.yaml").write_text("edited\n")
    state = scan.state(tmp_path, NEW)
    write.write_trees(tmp_path, [NEW])

    assert [difference.path for difference in state.differences] == ["kept.yaml"]
    assert (state.kind, scan.state(tmp_path, NEW).kind) == ("old", "fine")


def test_an_edited_file_that_is_no_longer_wanted_is_removed_all_the_same(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [OLD])
    (tmp_path / "east/gone/x.yaml").write_text("edited\n")
    write.write_trees(tmp_path, [NEW])

    assert texts(tmp_path / "east") == dict(NEW.files)


def test_foreign_files_are_reported_and_never_touched(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [OLD])
    foreign = {"notes.md": "mine\n", "gone/mine.yaml": "mine\n", "own/a/b": "mine\n"}
    for path, text in foreign.items():
        (tmp_path / "east" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "east" / path).write_text(text)
    (tmp_path / "east/empty").mkdir()
    (done,) = write.write_trees(tmp_path, [NEW])

    folder = tmp_path / "east"
    assert done.foreign == ("gone/mine.yaml", "notes.md", "own/")
    assert texts(folder) == {**dict(NEW.files), **foreign}
    assert scan.state(tmp_path, NEW).foreign == ("gone/", "notes.md", "own/")


def test_the_name_of_a_foreign_file_can_always_be_printed(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [NEW])
    (tmp_path / "east" / os.fsdecode(b"\xff")).touch()
    (tmp_path / "east" / "a\x1b[2J\n").touch()

    assert scan.state(tmp_path, NEW).foreign == ("\\xff", "a\\x1b[2J\\n")


def test_a_foreign_file_in_the_way_stops_the_compile_before_anything_is_written(tmp_path: Path) -> None:
    west = tree.Tree.of("west", {"a.yaml": "a\n"})
    write.write_trees(tmp_path, [OLD])
    (tmp_path / "east/added").mkdir()
    (tmp_path / "east/added/y.yaml").write_text("mine\n")
    before = shape(tmp_path)

    with pytest.raises(errors.WorldError, match=r"added/y\.yaml' is in the way"):
        write.write_trees(tmp_path, [west, NEW])
    assert shape(tmp_path) == before
    assert scan.state(tmp_path, NEW).foreign == ("added/y.yaml",)


def test_a_foreign_file_of_the_wanted_content_is_adopted(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [OLD])
    (tmp_path / "east/added").mkdir()
    (tmp_path / "east/added/y.yaml").write_text("y\n")
    before = scan.state(tmp_path, NEW)
    (done,) = write.write_trees(tmp_path, [NEW])

    assert (before.foreign, done.written, scan.state(tmp_path, NEW).kind) == ((), ("changed.yaml",), "fine")


@pytest.mark.parametrize("damage", [None, b"", b"<<<<<<< HEAD\n{}\n"])
def test_without_a_readable_index_only_equal_files_are_taken_for_ours(tmp_path: Path, damage: bytes | None) -> None:
    write.write_trees(tmp_path, [OLD])
    (tmp_path / "east/index.json").unlink()
    if damage is not None:
        (tmp_path / "east/index.json").write_bytes(damage)

    assert scan.state(tmp_path, OLD).kind == "edited"
    with pytest.raises(errors.WorldError) as caught:
        write.write_trees(tmp_path, [NEW])
    assert "restore it from git" in caught.value.hint
    write.write_trees(tmp_path, [OLD])
    assert scan.state(tmp_path, OLD).kind == "fine"


def test_an_index_that_points_out_of_its_folder_is_never_followed(tmp_path: Path) -> None:
    output, outside = tmp_path / "output", tmp_path / "outside.yaml"
    outside.write_text("x\n")
    for path in ("../../outside.yaml", str(outside), ".git/config", "a\x1b"):
        (output / "east").mkdir(parents=True, exist_ok=True)
        (output / "east/index.json").write_text(index_file.text(index_file.Index(files=(path,))))

        for act in (lambda: write.write_trees(output, [NEW]), lambda: scan.state(output, NEW)):
            with pytest.raises(errors.WorldError, match="which the compiler never writes"):
                act()
        with pytest.raises(errors.WorldError, match="which the compiler never writes"):
            write.write_trees(output, ["east"])
    assert outside.read_text() == "x\n"


def test_a_linked_folder_is_never_followed(tmp_path: Path) -> None:
    output, outside = tmp_path / "output", tmp_path / "outside"
    write.write_trees(output, [OLD])
    (output / "east/gone").rename(outside)
    (output / "east/gone").symlink_to(outside)

    with pytest.raises(errors.WorldError, match="gone' is not a folder"):
        write.write_trees(output, [NEW])
    assert texts(outside) == {"x.yaml": "x\n"}


def test_a_linked_file_of_ours_gives_way_and_its_target_stays(tmp_path: Path) -> None:
    output, outside = tmp_path / "output", tmp_path / "outside"
    write.write_trees(output, [NEW])
    outside.write_text("kept\n")
    (output / "east/kept.yaml").unlink()
    (output / "east/kept.yaml").symlink_to(outside)
    before = scan.state(output, NEW)
    write.write_trees(output, [NEW])

    assert (before.kind, scan.state(output, NEW).kind) == ("edited", "fine")
    assert not (output / "east/kept.yaml").is_symlink()
    assert outside.read_text() == "kept\n"


def test_a_link_planted_at_the_temporary_name_is_not_written_through(tmp_path: Path) -> None:
    output, outside = tmp_path / "output", tmp_path / "outside"
    outside.write_text("mine\n")
    (output / "east").mkdir(parents=True)
    (output / "east/kept.yaml.kae-tmp").symlink_to(outside)
    write.write_trees(output, [NEW])

    assert outside.read_text() == "mine\n"
    assert texts(output / "east") == dict(NEW.files)


@pytest.mark.parametrize("where", ["east", "east/added", "east/index.json", "east/kept.yaml"])
def test_a_path_of_the_wrong_sort_is_named_and_left_alone(tmp_path: Path, where: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(exist_ok=True)
    if where in ("east", "east/added"):
        path.symlink_to(tmp_path)
    else:
        path.mkdir()

    with pytest.raises(errors.WorldError, match=where):
        write.write_trees(tmp_path, [NEW])
    assert path.is_symlink() or list(path.iterdir()) == []


def test_a_socket_in_place_of_a_file_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "east").mkdir()
    monkeypatch.chdir(tmp_path / "east")  # the path of a socket is at most 107 bytes long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("kept.yaml")

    with pytest.raises(errors.WorldError, match=r"kept\.yaml' is in the way"):
        write.write_trees(tmp_path, [NEW])


class Refusing(write.Disk):
    """A disk that is full, or forbidden, from its nth operation on; a write leaves half of the file."""

    def __init__(self, allowed: int, code: int) -> None:
        self.left = allowed
        self.code = code

    def _count(self, path: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.code, os.strerror(self.code), str(path))

    def make_folder(self, path: Path) -> None:
        self._count(path)
        super().make_folder(path)

    def write(self, path: Path, content: bytes) -> None:
        if self.left <= 0:
            super().write(path, content[: len(content) // 2])
        self._count(path)
        super().write(path, content)

    def replace(self, source: Path, target: Path) -> None:
        self._count(target)
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        if not path.name.endswith(".kae-tmp"):  # room is made also on a full disk
            self._count(path)
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        self._count(path)
        super().remove_folder(path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_disk_that_refuses_is_named_and_the_next_compile_heals(tmp_path: Path, code: int) -> None:
    allowed = 0
    while True:
        output = tmp_path / str(allowed)
        write.write_trees(output, [OLD])
        try:
            write.write_trees(output, [NEW], disk=Refusing(allowed, code))
        except errors.WorldError as error:
            assert str(output) in str(error)
            assert os.strerror(code) in str(error)
            kind = scan.state(output, NEW).kind
            assert kind in ("old", "incomplete")
            assert ("the next compile completes this one" in error.hint) is (kind == "incomplete")
            assert not list(output.rglob("*.kae-tmp"))
        else:
            break
        write.write_trees(output, [NEW])
        assert texts(output / "east") == dict(NEW.files)
        allowed += 1

    # Two indexes and two files with their renames; a folder made; a file and its folder removed.
    assert allowed == 11


@pytest.mark.parametrize("is_current", [False, True])
def test_a_failure_says_that_the_next_compile_completes_a_clusters_begin(is_current: bool, tmp_path: Path) -> None:
    other = tree.Tree.of("west", {"a.yaml": "a\n"})
    write.write_trees(tmp_path, [OLD, other] if is_current else [OLD])
    # The first cluster's tree is written completely, or is there already; the second one's first write fails.
    allowed = 0 if is_current else 7

    with pytest.raises(errors.WorldError) as caught:
        write.write_trees(tmp_path, [other, NEW], disk=Refusing(allowed, errno.ENOSPC))

    assert bool(caught.value.hint) is not is_current


def test_an_output_that_cannot_be_a_folder_is_a_failure_of_the_world(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("")

    with pytest.raises(errors.WorldError, match="output' cannot be written: File exists"):
        write.write_trees(tmp_path / "output", [NEW])


class Watching(write.Disk):
    """A disk that looks, at each write, whether another compile could begin."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.free: list[bool] = []

    def write(self, path: Path, content: bytes) -> None:
        handle = os.open(self.output, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.free.append(True)
        except BlockingIOError:
            self.free.append(False)
        finally:
            os.close(handle)
        super().write(path, content)


def test_one_compile_writes_at_a_time(tmp_path: Path) -> None:
    disk = Watching(tmp_path)
    write.write_trees(tmp_path, [NEW], disk=disk)

    assert set(disk.free) == {False}


def test_clusters_that_are_not_declared_any_more_are_found_by_their_index(tmp_path: Path) -> None:
    trees = [tree.Tree.of(name, {"a.yaml": "a\n"}) for name in ("east", "north", "west")]
    write.write_trees(tmp_path, trees)
    (tmp_path / "mine").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/index.json").write_text("mine")
    (tmp_path / "linked").symlink_to("west")
    (tmp_path / "README.md").touch()

    assert scan.stale_clusters(tmp_path, ["east"]) == ("north", "west")
    assert scan.stale_clusters(tmp_path / "absent", []) == ()


def test_removing_a_cluster_leaves_only_what_is_not_ours(tmp_path: Path) -> None:
    write.write_trees(tmp_path, [NEW, tree.Tree.of("west", dict(NEW.files))])
    (tmp_path / "west/added/notes.md").write_text("mine\n")
    done = write.write_trees(tmp_path, ["east", "west"])

    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "west", "west/added", "west/added/notes.md",
    ]  # fmt: skip
    assert [len(one.foreign) for one in done] == [0, 1]
    assert scan.stale_clusters(tmp_path, []) == ()


def test_removing_a_cluster_without_a_readable_index_touches_nothing(tmp_path: Path) -> None:
    (tmp_path / "east").mkdir()
    (tmp_path / "east/index.json").write_text("mine")
    before = shape(tmp_path)
    write.write_trees(tmp_path, ["east", "absent"])

    assert shape(tmp_path) == before


@pytest.mark.parametrize("cluster", ["..", "", ".", "a/b"])
def test_only_a_folder_of_a_cluster_can_be_removed(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(ValueError, match="no name of a cluster"):
        write.write_trees(tmp_path, [cluster])


FILES = st.dictionaries(
    st.tuples(st.sampled_from(["", "a/", "b/", "b/c/"]), st.sampled_from(["x.yaml", "y.yaml", "z"])).map("".join),
    st.sampled_from(["", "1\n", "2\n"]),
)


@hypothesis.settings(
    max_examples=effort.examples(gate=15, long=60),
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(old=FILES, new=FILES, foreign=FILES, complete=st.booleans())
def test_whatever_lay_there_the_new_tree_and_the_foreign_files_lie_there_afterwards(
    tmp_path_factory: pytest.TempPathFactory,
    old: Mapping[str, str],
    new: Mapping[str, str],
    foreign: Mapping[str, str],
    complete: bool,
) -> None:
    output = tmp_path_factory.mktemp("output")
    before, after = tree.Tree.of("east", old), tree.Tree.of("east", new)
    write.write_trees(output, [before])
    index = before.index._replace(complete=complete)
    (output / "east/index.json").write_text(index_file.text(index))
    kept = {path: text for path, text in foreign.items() if path not in old and path not in new}
    for path, text in kept.items():
        (output / "east" / path).parent.mkdir(parents=True, exist_ok=True)
        (output / "east" / path).write_text(text)
    write.write_trees(output, [after])

    assert texts(output / "east") == {**new, **kept}
    assert scan.state(output, after).kind == ("foreign" if kept else "fine")
