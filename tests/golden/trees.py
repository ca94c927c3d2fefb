"""The golden trees: the smallest case is stored as files, the tree of every other case as a diff against it.

A diff is a text of blocks. A path is relative to the folder of the cluster; a file that no block names is as in the
smallest case.

    removed nfd/                        a folder or a file of the smallest case that is not in this tree
    added images.txt                    a whole file, new or in place of the one in the smallest case
    changed driver/role.yaml            hunks of a unified diff against the file of this path in the smallest case
    added driver/b.yaml from SOURCE     hunks against SOURCE, which is `smallest/<path>` or a path of an earlier block
"""

import difflib
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests import project

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BASE = "smallest"
BASE_TREE = HERE / BASE / "output" / "east"
CASES = tuple(path.name for path in project.cases(HERE, "why.md"))

_CONTEXT_LINES = 1
_BLOCK = re.compile(r"^(?=[a-z])", re.MULTILINE)
"""A block begins with a word; all its other lines begin with one of `@+- `."""
_HUNK = re.compile(r"@@ -(\d+)")

Files = Mapping[str, str]
"""Texts by their path below the folder of a cluster."""


def read(folder: Path) -> Files:
    """Return every file below a folder."""
    return {path: content.decode() for path, content in sorted(project.tree(folder).items())}


def titles() -> Sequence[str]:
    """Return the folder of each cluster, relative to the root: of the example fleet and of every golden project."""
    stored = (path.with_suffix("") for path in HERE.glob("*/output/*.diff"))
    return tuple(str(path.relative_to(ROOT)) for path in sorted([*ROOT.glob("output/*/"), BASE_TREE, *stored]))


@functools.cache
def files(title: str) -> Files:
    """Return the files of a tree; those of a diff are expanded."""
    folder = ROOT / title
    stored = folder.with_name(f"{folder.name}.diff")
    return expanded(read(BASE_TREE), stored.read_text("utf-8")) if stored.exists() else read(folder)


def every() -> Mapping[str, Files]:
    """Return the trees of the example fleet and of the golden projects, by their titles."""
    return {title: files(title) for title in titles()}


def diff(base: Files, wanted: Files) -> str:
    """Return the blocks that turn the smallest tree into another."""
    gone = {path for path in base if path not in wanted}
    folders = {path.partition("/")[0] for path in wanted}
    removed = {path if (folder := path.partition("/")[0]) in folders else f"{folder}/" for path in gone}
    lines = [f"removed {path}" for path in sorted(removed)]
    sources = {f"{BASE}/{path}": text for path, text in base.items()}
    for path, text in wanted.items():
        if base.get(path) != text:
            lines += _block(path, text, sources)
            sources[path] = text
    return "".join(f"{line}\n" for line in lines)


def expanded(base: Files, blocks: str) -> Files:
    """Return the tree that a diff describes; raise AssertionError where the diff does not fit the smallest tree."""
    sources = {f"{BASE}/{path}": text for path, text in base.items()}
    result = dict(base)
    for block in _BLOCK.split(blocks)[1:]:
        head, *lines = _lines(block)
        verb, path, *source = head.split(" ")
        if verb == "removed":
            result = {name: text for name, text in result.items() if not name.startswith(path)}
        else:
            old = source[1] if source else f"{BASE}/{path}" if verb == "changed" else ""
            result[path] = sources[path] = _patched(_lines(sources.get(old, "")), lines)
    return result


def _block(path: str, text: str, sources: Files) -> Sequence[str]:
    """Return the shortest block for a file: whole, or against a source of its kind."""
    same = f"{BASE}/{path}"
    titles = {same: f"changed {path}"} if same in sources else {}
    titles |= {source: f"added {path} from {source}" for source in sources if source != same}
    blocks = [[f"added {path}", *(f"+{line}" for line in _lines(text))]]
    blocks += [
        [title, *_hunks(sources[source], text)] for source, title in titles.items() if _kind(source) == _kind(path)
    ]
    return min(blocks, key=len)


def _kind(path: str) -> tuple[str, str]:
    folder, _, name = path.removeprefix(f"{BASE}/").rpartition("/")
    return folder, name.partition("-")[0]


def _hunks(old: str, new: str) -> Iterator[str]:
    lines = difflib.unified_diff(_lines(old), _lines(new), lineterm="", n=_CONTEXT_LINES)
    return itertools.islice(lines, 2, None)  # The names of the files come first.


def _patched(old: Sequence[str], lines: Sequence[str]) -> str:
    new: list[str] = []
    position = 0
    for line in lines:
        if hunk := _HUNK.match(line):
            start = int(hunk[1]) - 1
            new += old[position:start]
            position = start
            continue
        if line[0] != "+":
            assert old[position] == line[1:], f"A diff does not fit: {line!r} is not line {position + 1}."
            position += 1
        if line[0] != "-":
            new.append(line[1:])
    return "".join(f"{line}\n" for line in (*new, *old[position:]))


def _lines(text: str) -> list[str]:
    """Split a text of whole lines at line feeds alone, as YAML and git do."""
    *lines, rest = text.split("\n")
    assert rest == "", "A file does not end with a line feed."
    return lines
