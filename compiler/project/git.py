"""The git of the user, asked about the repository around the current folder, and what it knows of output/.

Light enough to import in every call.
"""

import contextlib
import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from compiler import errors, names, wording
from compiler.output import index_file, scan, tree

if TYPE_CHECKING:
    import subprocess

_SIDES = ("HEAD", "MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REVERT_HEAD^")
"""The commits that `git merge`, `rebase`, `cherry-pick` and `revert` join: gitrevisions(7)."""

_OBJECT = re.compile(rb"[0-9a-f]+ [a-z]+ ([0-9]+)\n")
"""The line before an object in the answer of `git cat-file --batch`."""

_WILD = re.compile(r"[*?\[\\]")


def answer(*arguments: str) -> bytes:
    """Return the answer of git to arguments. Raises WorldError with its words."""
    import subprocess  # noqa: PLC0415 - many a folder is in no repository

    try:
        done = subprocess.run(  # noqa: S603 - no shell, and git takes no option from what it is given
            ("git", *map(os.fsencode, arguments)),  # noqa: S607 - the git of the user
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=environment(),
        )
    except OSError as error:
        raise errors.WorldError(f"git cannot be run: {error.strerror}.", hint="Install git.") from error
    if done.returncode:
        said = wording.cut(done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")) or "git failed"
        hint = "Older versions of the documents come from a git repository."
        if said.startswith("not a git repository"):
            hint = "Run `git init` and commit first: this compares with a commit."
        raise errors.WorldError(f"git says: {said}", hint=hint)
    return done.stdout


def environment() -> Mapping[str, str]:
    """Return an environment in which git speaks English and locks nothing that it only reads."""
    return {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


def tracked(output: str) -> frozenset[str]:
    """Return the clusters whose index git has; none without git or outside of a repository."""
    escaped = _WILD.sub(r"\\\g<0>", output)
    listed = _lines("ls-files", "-z", "--", f":(glob){escaped}/*/{index_file.NAME}")
    return frozenset(Path(path).parent.name for path in listed)


def unmerged(output: str, extra: Collection[str]) -> frozenset[str]:
    """Return the compiler's paths below output/ that git has in conflict; in folders of `extra` there are none.

    Nothing is known without git or outside of a repository. A file of a person may be in conflict too: the compiler's
    are those that an index of a side of the merge records.
    """
    # Each is there up to three times, after its mode, its digest and its side.
    listed = _lines("ls-files", "-z", "--unmerged", "--", f":(literal){output}")
    paths = {os.path.relpath(line.partition("\t")[2], output) for line in listed}
    own = filter(tree.is_name, sorted(clusters(paths).difference(extra)))
    return frozenset(paths.intersection(_recorded(output, own, _SIDES)))


def untracked(output: str) -> frozenset[str]:
    """Return the paths below output/ of files that git does not have; none without git or outside of a repository."""
    listed = _lines("ls-files", "-z", "--others", "--", f":(literal){output}")
    return frozenset(os.path.relpath(path, output) for path in listed)


def restored(output: str) -> frozenset[str]:
    """Return the paths below output/ of files as HEAD has them that HEAD's index records, where the index now differs.

    `git checkout -- PATH` takes back files, and leaves the index that does not record them any more.
    """
    # What `git diff` says is surer, but it writes what it has looked at to git's index.
    escaped = _WILD.sub(r"\\\g<0>", output)
    changed = ("diff-index", "--name-only", "--relative", "-z", "HEAD", "--", f":(glob){escaped}/*/{index_file.NAME}")
    found, folder = set[str](), os.path.relpath(output)
    with Objects() as objects, contextlib.suppress(errors.WorldError):  # A compile tells of a folder that is odd.
        for cluster in sorted(filter(tree.is_name, (Path(path).parent.name for path in _lines(*changed)))):
            now = scan.recorded(Path(output), cluster)
            if now is None:  # Without an index nothing is known to be the compiler's.
                continue
            own = {f"{cluster}/{path}" for path in (*now.files, index_file.NAME)}
            for path in sorted({*_recorded(output, [cluster], ("HEAD",))} - own):
                content = objects.content(f"HEAD:./{folder}/{path}")
                if content is not None and scan.holds(Path(output, path), tree.digest(content)):
                    found.add(path)
    return frozenset(found)


def changed(output: str, revision: str, to: str | None) -> frozenset[str]:
    """Return the paths below output/ of files that differ between two commits, or from the working tree without `to`.

    Raises WorldError.
    """
    within = ("--name-only", "--no-renames", "--relative", "-z")
    if to is not None:
        listed = answer("diff-tree", "-r", *within, revision, to, "--", f":(literal){output}")
        return frozenset(os.path.relpath(os.fsdecode(line), output) for line in listed.split(b"\0") if line)
    # As to `restored`: what git has not looked at since it was touched may be equal.
    listed, folder = answer("diff-index", *within, revision, "--", f":(literal){output}"), os.path.relpath(output)
    paths = {os.path.relpath(os.fsdecode(line), output) for line in listed.split(b"\0") if line}
    with Objects() as objects:
        had = ((path, objects.content(f"{revision}:./{folder}/{path}")) for path in sorted(paths))
        same = {path for path, text in had if text is not None and scan.holds(Path(output, path), tree.digest(text))}
    return untracked(output) | paths - same


def left(
    output: str, coming: Collection[str], others: Collection[str], revision: str, to: str | None
) -> Mapping[str, str]:
    """Return the former folders, from the top of the repository, of outputs of some clusters that are now in `output`.

    A commit has them, and neither another one nor, without `to`, the working tree. Those of `others` were in `output`
    too, and the former folder may be that of another project's cluster of this name: such a folder is none. Raises
    WorldError.
    """
    top, prefix = os.fsdecode(answer("rev-parse", "--show-toplevel", "--show-prefix")).split("\n")[:2]
    had = _indexes(revision, coming) if coming else set[str]()
    has = _indexes(to, coming) if to is not None and coming else set[str]()
    deleted = _deleted(others, revision, to)
    gone = {path for path in had - has | deleted if to is not None or not os.path.lexists(Path(top, path))}
    here = os.path.normpath(Path(prefix, os.path.relpath(output)))
    found: dict[str, str] = {}
    with Objects() as objects:
        for path in sorted(gone):
            former = path.removesuffix(f"/{index_file.NAME}")
            folder, _, cluster = former.rpartition("/")
            if folder == here or (path in deleted and not _is_of(prefix, folder, revision, objects)):
                continue
            if index_file.read(objects.content(f"{revision}:{path}") or b""):
                found.setdefault(cluster, former)
    return found


def _deleted(own: Collection[str], revision: str, to: str | None) -> set[str]:
    """Return the paths of a commit, from the top of the repository, of indexes of clusters that another one has not."""
    within = ("--name-only", "--no-renames", "--diff-filter=D", "-z")
    sides = ("diff-index", *within, revision) if to is None else ("diff-tree", "-r", *within, revision, to)
    listed = answer(*sides, "--", f":(top,glob)**/{index_file.NAME}").split(b"\0")
    return {path for path in map(os.fsdecode, listed) if _cluster(path) in own and "\n" not in path}


def _cluster(path: str) -> str:
    """Return the cluster whose output may have a file."""
    return path.rpartition("/")[0].rpartition("/")[2]


def _is_of(prefix: str, folder: str, revision: str, objects: "Objects") -> bool:
    """Return whether a folder is of the project at a prefix, and not of one below it."""
    if not f"{folder}/".startswith(prefix):
        return False
    parts = folder.removeprefix(prefix).split("/")
    below = (prefix + "/".join(parts[:count]) for count in range(1, len(parts)))
    marks = (f"{revision}:{each}/{mark}" for each in below for mark in (names.PROJECT_FILE, names.POLICIES))
    return all(objects.content(mark) is None for mark in marks)


def copies(output: str, own: Collection[str], revision: str, to: str | None) -> Mapping[str, str]:
    """Return the folders, from the top of the repository, of outputs of clusters that two commits have.

    Without `to` that is the working tree. Raises WorldError.
    """
    prefix = os.fsdecode(answer("rev-parse", "--show-prefix")).rstrip("\n")
    found: dict[str, str] = {}
    with Objects() as objects:
        for cluster in sorted(own):
            path = os.path.relpath(Path(output, cluster, index_file.NAME))
            is_there = os.path.lexists(path) if to is None else objects.content(f"{to}:./{path}") is not None
            if is_there and objects.content(f"{revision}:./{path}") is not None:
                found[cluster] = os.path.normpath(Path(prefix, path).parent)
    return found


def _indexes(revision: str, own: Collection[str]) -> set[str]:
    """Return the paths of a commit, from the top of the repository, that indexes of these clusters may have."""
    listed = answer("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision).split(b"\0")
    paths = (os.fsdecode(line) for line in listed if line.endswith(f"/{index_file.NAME}".encode()))
    # `git cat-file` takes a line for a name.
    return {path for path in paths if _cluster(path) in own and "\n" not in path}


def clusters(paths: Iterable[str]) -> frozenset[str]:
    """Return the clusters of paths below output/."""
    return frozenset(path.partition("/")[0] for path in paths)


def _recorded(output: str, names: Iterable[str], commits: Iterable[str]) -> Iterator[str]:
    """Yield the paths below output/ that these commits record for clusters of these names."""
    folder = os.path.relpath(output)
    with Objects() as objects:
        for cluster, commit in itertools.product(names, commits):
            content = objects.content(f"{commit}:./{folder}/{cluster}/{index_file.NAME}")
            for index in index_file.read(content or b""):
                yield from (f"{cluster}/{path}" for path in (*index.files, index_file.NAME))


class Objects:
    """What git has of the repository around the current folder; one `git cat-file` is at work until it is closed."""

    def __init__(self) -> None:
        self._reader: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.communicate()

    def content(self, name: str) -> bytes | None:
        """Return the content of an object, by its id or as gitrevisions(7) says; None where git does not have it."""
        import subprocess  # noqa: PLC0415

        if self._reader is None:
            command = ("git", "cat-file", "--batch")
            self._reader = subprocess.Popen(  # noqa: S603 - the arguments are constant
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
            )
        source, sink = self._reader.stdout, self._reader.stdin
        with contextlib.suppress(BrokenPipeError):
            if source is not None and sink is not None:
                sink.write(os.fsencode(f"{name}\n"))
                sink.flush()
                held = _OBJECT.fullmatch(source.readline())
                if held is not None:
                    return source.read(int(held[1]) + 1)[:-1]
        return None


def _lines(*arguments: str) -> list[str]:
    """Return the lines of an answer of git that end with a NUL; none without an answer or outside of a repository."""
    here = Path.cwd()
    if "GIT_DIR" not in os.environ and not any(os.path.lexists(folder / ".git") for folder in (here, *here.parents)):
        return []
    try:
        return [os.fsdecode(line) for line in answer(*arguments).split(b"\0") if line]
    except errors.WorldError:
        return []
