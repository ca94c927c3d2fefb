"""A compile that is killed at any moment leaves a state that is named rightly, and that the next one heals.

Children are forked and end by SIGKILL, so that nothing of them can tidy up.
"""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compiler.output import scan, tree, write
from tests import project

pytestmark = pytest.mark.long

OLD = tree.Tree.of(
    "east",
    {f"part-{number % 7}/object-{number:02}.yaml": f"number: {number}\n" * 40 for number in range(21)},
)
NEW = tree.Tree.of(
    "east",
    {
        **{path: text for path, text in OLD.files if not path.startswith(("part-1/", "part-2/object-0"))},
        **{path: text * 2 for path, text in OLD.files if path.startswith("part-3/")},
        **{f"new/{number % 3}/object-{number}.yaml": f"new: {number}\n" for number in range(4)},
    },
)
SMALL = tree.Tree.of("east", {"a/b/x.yaml": "x\n", "a/y.yaml": "y\n", "z.yaml": "z\n"})
FOREIGN = {"notes.md": "mine\n", "part-1/mine.yaml": "mine\n", "part-3/mine.yaml.kae-tmp": "mine\n"}


class Deadly(write.Disk):
    """A disk on which the nth moment is the last: before an operation, or in the midst of a write."""

    def __init__(self, last: int) -> None:
        self.moments = 0
        self.last = last

    def _moment(self) -> None:
        if self.moments == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.moments += 1

    def make_folder(self, path: Path) -> None:
        self._moment()
        super().make_folder(path)

    def write(self, path: Path, content: bytes) -> None:
        self._moment()
        super().write(path, content[: len(content) // 2])
        self._moment()
        path.write_bytes(content)

    def replace(self, source: Path, target: Path) -> None:
        self._moment()
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        self._moment()
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        self._moment()
        super().remove_folder(path)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """A folder that holds the old tree, and files of somebody else."""
    write.write_trees(tmp_path, [OLD])
    project.write(tmp_path / "east", FOREIGN)
    return tmp_path


def contents(output: Path) -> dict[str, str]:
    """Every file of the cluster, but for its index."""
    folder = output / "east"
    files = (path for path in folder.rglob("*") if path.is_file() and path != folder / "index.json")
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def child(act: Callable[[], object]) -> int:
    """A process that does something, and nothing else, with its number."""
    process = os.fork()
    if process == 0:
        try:
            act()
        finally:
            os._exit(0)
    return process


def is_killed(process: int) -> bool:
    """Wait for a child; return whether it ended by SIGKILL rather than by itself."""
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def ours(output: Path) -> dict[str, str]:
    """Every file of the cluster that is neither foreign nor a leftover."""
    found = contents(output).items()
    return {path: text for path, text in found if path not in FOREIGN and not path.endswith(".kae-tmp")}


def named_rightly(output: Path, before: tree.Tree, after: tree.Tree) -> str:
    """The state as a check names it, once it is proved that the name fits what lies there."""
    kind = scan.state(output, after).kind
    lies = ours(output)
    if kind == "foreign":  # as compiled, beside FOREIGN
        assert lies == dict(after.files)
    elif kind == "old":
        assert lies == dict(before.files)
        assert scan.state(output, before).kind in ("foreign", "old")
    else:
        assert kind == "incomplete"
        assert lies.items() <= set(before.files) | set(after.files)
        assert scan.state(output, before).kind == "incomplete"
    return kind


def assert_healed(output: Path, wanted: tree.Tree, foreign: dict[str, str]) -> None:
    """The next compile ends with exactly the wanted tree."""
    write.write_trees(output, [wanted])
    assert scan.state(output, wanted).kind == ("foreign" if foreign else "fine")
    assert contents(output) == {**dict(wanted.files), **foreign}


def deaths(act: Callable[[write.Disk], object], again: Callable[[], None]) -> Iterator[int]:
    """Each moment of an act, after a process died at it; `again` restores what lay there before."""
    moment = 0
    while is_killed(child(lambda: act(Deadly(moment)))):  # noqa: B023 - it runs before the loop goes on
        yield moment
        again()
        moment += 1


@pytest.mark.long
def test_a_rewrite_that_is_killed_at_any_operation_is_seen_and_healed(output: Path) -> None:
    def again() -> None:
        write.write_trees(output, [OLD])

    kinds = []
    for _ in deaths(lambda disk: write.write_trees(output, [NEW], disk=disk), again):
        kinds.append(named_rightly(output, OLD, NEW))
        assert_healed(output, NEW, FOREIGN)

    changed = set(NEW.files) - set(OLD.files)
    assert len(kinds) > 3 * (len(changed) + 2)  # before a write, in its midst, before the rename
    assert [kind for kind, following in itertools.pairwise(kinds) if kind != following] == ["old"]
    assert scan.state(output, NEW).kind == "foreign"
    assert contents(output) == {**dict(NEW.files), **FOREIGN}


def test_a_first_compile_that_is_killed_at_any_operation_is_seen_and_healed(tmp_path: Path) -> None:
    def again() -> None:
        write.write_trees(tmp_path, ["east"])

    kinds = []
    for _ in deaths(lambda disk: write.write_trees(tmp_path, [SMALL], disk=disk), again):
        kinds.append(named_rightly(tmp_path, tree.Tree.of("east", {}), SMALL))
        assert_healed(tmp_path, SMALL, {})

    assert set(kinds) == {"old", "incomplete"}


def test_a_removal_that_is_killed_at_any_operation_is_ended_by_the_next(tmp_path: Path) -> None:
    def again() -> None:
        write.write_trees(tmp_path, [SMALL])

    again()
    moments = 0
    for _ in deaths(lambda disk: write.write_trees(tmp_path, ["east"], disk=disk), again):
        assert scan.stale_clusters(tmp_path, []) == ("east",) or contents(tmp_path) == {}
        assert scan.state(tmp_path, SMALL).kind in ("fine", "old", "incomplete")
        write.write_trees(tmp_path, ["east"])
        assert contents(tmp_path) == {}
        moments += 1

    assert moments == 10  # the interim index: 3; three files and two folders; the index and its folder: 2
    assert list(tmp_path.iterdir()) == []


def test_a_third_tree_heals_a_rewrite_of_which_it_knows_nothing(tmp_path: Path) -> None:
    second = tree.Tree.of("east", {"a/y.yaml": "second\n", "c/d/x.yaml": "x\n"})
    third = tree.Tree.of("east", {"a/y.yaml": "third\n", "other/x.yaml": "x\n"})

    def again() -> None:
        write.write_trees(tmp_path, [SMALL])

    again()
    for _ in deaths(lambda disk: write.write_trees(tmp_path, [second], disk=disk), again):
        assert_healed(tmp_path, third, {})

    assert_healed(tmp_path, third, {})
