"""The files that hold documents. Light enough to import in every call."""

import contextlib
import errno
import operator
import os
import re
import stat
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, TypeVar

from compiler import diagnostics, errors, names, wording
from compiler.project import links
from compiler.settings import Settings

diagnostics.shared_rule(
    "not-a-file", "error", "A path with the ending of a document is a regular file, or a link to one."
)
diagnostics.shared_rule(
    "link-outside", "error", "A link among the documents leads to a place in the project, outside of git's folder."
)

ENDINGS = (".yaml", ".yml", ".json")
"""The suffixes of document files."""

_NEARLY = (
    r"(?i)\.(ya?ml|yam|yalm|ymal|json|jso|jsn|josn)"
    r"(\.(backup|bak|disabled|new|off|old|orig|rej|save|sw[op]|tmp|txt)|\.?~[0-9]*~?|#)*"
)
"""The end of a name that an editor, a merge or a slip made of a document's: policy.YAML, policy.yaml~, policy.yam."""

_NO_CONTENT = re.compile(
    rb"(\xef\xbb\xbf)?([ \t]*#[^\n]*\n|%[^\n]*\n|(---|\.\.\.)[ \t]*(#[^\n]*|\r)?\n|[ \t\r]*\n)*(---[ \t]+)?[ ]{0,3}"
)
"""What stands before the first word of a YAML document; more spaces make an example of Markdown."""
_OURS = re.compile(
    rb"(?=[\"'{\[]|(apiVersion|kind|metadata|spec|items)\s*:)"
    rb"(?s:.*)(apiVersion[\"']?\s*:\s*[\"']?device\.openfuyao\.com/|\"kind\"\s*:\s*\"Node(List)?\""
    # Deeper in YAML, the owner of another object is a node.
    rb"|(?m:^)[ ]{0,5}(- )?kind[ ]*:[ ]*[\"']?Node(List)?[\"']?[ \t\r]*(#|\n|\Z)"
    rb"|[{,][ ]*kind[ ]*:[ ]*[\"']?Node(List)?[\"']?[ ]*[,}])"
)
"""A document of the language, or a list of nodes, behind that; a text that only quotes one begins otherwise."""
_MOST_BYTES = 64 * 1024
"""Bytes that are looked at of a file whose name is not that of a document."""

_OTHERS = frozenset({".git", ".idea", ".schemas", ".vscode"})
"""Hidden folders of git and of editors, and that of the schemas which `kae recipe add` writes for these."""

_TEMPLATE = ".yaml.j2"

MOST_FOLDERS = 5_000
"""Folders that are read: far more than a fleet needs, and an end where kae.yaml names /proc or /usr."""

FOLDER_HINT = "Put the documents into the project, or name the folder itself."
"""The action where a folder of documents is a link that leads out of the project."""

FILE, FOLDER, NOTHING = "a file", "a folder", "a link that leads to no file"
OUTSIDE, FOLDER_OUTSIDE = "a link out of the folders of documents", "a link to a folder outside of them"
"""The sorts of an entry of a folder; the others are of disks alone, and git has none of them."""

_SORTS = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: FOLDER,
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

Where = TypeVar("Where")
"""Where an entry leads to, on a disk or in a commit."""


class Entry(NamedTuple, Generic[Where]):
    """An entry of a folder."""

    name: str
    place: Where
    is_link: bool


Listed = Callable[[str, Where], tuple[Hashable, Sequence[Entry[Where]]]]
"""Returns what tells a folder of a name from others, None if it is missing, and its entries, sorted by name."""

SortOf = Callable[[str, Entry[Where]], str]
"""Returns the sort of the entry of this name."""

HeadOf = Callable[[Where], bytes]
"""Returns the first bytes of a file whose name is not that of a document; none where nobody wants to know."""


class Input(NamedTuple):
    """A document file: its name in findings, and its path."""

    name: str
    path: Path


class _Named(Protocol):
    @property
    def name(self) -> str: ...


File = TypeVar("File", bound=_Named)
"""A document file, on a disk or in a commit."""


def of_project(settings: Settings) -> tuple[list[Input], list[diagnostics.Diagnostic]]:
    """Return the document files of the project in the current folder, and the findings. Raises WorldError for none."""
    files, findings = find(settings.folders)
    present = sorted(entry.name for entry in os.scandir() if entry.name.lower() in ("kae.yaml", "kae.yml"))
    findings += [_nearly(name, names.PROJECT_FILE) for name in present if name != names.PROJECT_FILE]
    if not files and not diagnostics.has_errors(findings):
        places = " nor ".join(f"{folder.rstrip('/')}/" for folder in (settings.policies, *settings.inventories))
        nearly = [f"For '{finding.span.file}': {finding.hint}" for finding in findings]
        raise errors.WorldError(
            f"there are no documents: neither {places} holds a .yaml, .yml or .json file.",
            hint=nearly[0]
            if nearly
            else "Run `kae init` for a new project, or `kae -C DIR` to work in another folder.",
        )
    return files, findings


def find(folders: Sequence[str | Path]) -> tuple[list[Input], list[diagnostics.Diagnostic]]:
    """Return the document files below folders of the disk, as `walk` finds them; a missing folder counts as empty.

    Links lead to the current folder or to one of these. Raises WorldError where something cannot be read.
    """
    allowed = links.folders(folders)
    pending = [(name_of(folder), Path(folder)) for folder in folders]
    for name, path in pending:
        if path.is_symlink() and not path.exists():
            raise link_to_nothing(name)
        links.require_inside(name, hint=FOLDER_HINT)
    files, findings = walk(pending, _listed, lambda name, entry: _sort(name, entry, allowed), _head)
    return [Input(name, path) for name, path in files], findings


def by_cluster(inventories: Iterable[File]) -> dict[str, tuple[File, ...]]:
    """Return the files of inventories by cluster, which their names say."""
    found: dict[str, tuple[File, ...]] = {}
    for item in inventories:
        cluster = names.stem(item.name)
        found[cluster] = (*found.get(cluster, ()), item)
    return found


def require_folder(folder: str | Path) -> None:
    """Raise WorldError for a named folder that does not exist."""
    if not Path(folder).is_dir():
        raise errors.WorldError(f"'{wording.file_name(str(folder))}' is not a folder.", "Name a folder that is there.")


def read(found: Input, edited: Mapping[str, bytes | None] = MappingProxyType({})) -> bytes:
    """Return the content of a file; `edited` have another one than on the disk. Raises WorldError."""
    content = edited.get(found.name)
    if content is not None:
        return content
    try:
        return found.path.read_bytes()
    except OSError as error:
        raise _failure(found.name, error) from error


def digest(found: Input, digest_of: Callable[[str], str]) -> str:
    """Return the digest that `digest_of` gives for the file's path. Raises WorldError."""
    try:
        return digest_of(str(found.path))
    except OSError as error:
        raise _failure(found.name, error) from error


def name_of(folder: str | Path) -> str:
    """Return the prefix of the names in a folder: relative to the current one if below it, otherwise as written."""
    path, here = Path(folder).absolute(), Path.cwd()
    name = (path.relative_to(here) if path.is_relative_to(here) else Path(folder)).as_posix()
    return "" if name == "." else name


def walk(
    folders: Iterable[tuple[str, Where]],
    listed: Listed[Where],
    sort_of: SortOf[Where],
    head_of: HeadOf[Where] = lambda _: b"",
) -> tuple[list[tuple[str, Where]], list[diagnostics.Diagnostic]]:
    """Return the document files below folders, sorted by name, and a finding for each entry that is none.

    Hidden folders are skipped, with a finding where they hold documents. Each folder is read once, even if several
    links lead to it. Raises WorldError.
    """
    files, linked, read = list[tuple[str, Where]](), list[tuple[str, Where]](), set[Hashable]()
    findings, pending = list[diagnostics.Diagnostic](), list(folders)
    while pending or linked:
        if not pending:  # Links come last, so that a document has the name of its real folder.
            linked.sort(key=operator.itemgetter(0), reverse=True)
            pending = [linked.pop()]
        above, folder = pending.pop()
        key, entries = listed(above, folder)
        if key is None or key in read:
            continue
        read.add(key)
        _require_few(len(read))
        findings += _templates(above, [entry.name for entry in entries])
        for entry in entries:
            name = f"{above}/{entry.name}" if above else entry.name
            if entry.name.startswith("."):
                findings += _hidden(name, entry, listed, sort_of)
                continue
            sort = sort_of(name, entry)
            if sort == FILE and name.endswith(ENDINGS) and wording.file_name(name) == name:
                files.append((name, entry.place))
            elif sort == FOLDER and not name.endswith(ENDINGS):
                (linked if entry.is_link else pending).append((name, entry.place))
            else:
                findings += _unread(name, sort) or _misnamed(name, sort, head_of(entry.place) if sort == FILE else b"")
    return sorted(files, key=operator.itemgetter(0)), findings


def _hidden(
    name: str, entry: Entry[Where], listed: Listed[Where], sort_of: SortOf[Where]
) -> list[diagnostics.Diagnostic]:
    """Return the finding on a hidden entry, if it is a document or a folder that holds one."""
    if entry.name.endswith(ENDINGS) and sort_of(name, entry) == FILE:
        return [_nearly(name, entry.name.lstrip(".") if Path(entry.name).suffix else f"policy{entry.name}")]
    # The kubelet mounts a ConfigMap as ..<time>/, a link ..data to it, and a link in that for each file.
    if entry.name in _OTHERS or entry.name.startswith("..") or entry.is_link or sort_of(name, entry) != FOLDER:
        return []
    pending = [(name, entry.place)]
    with contextlib.suppress(errors.WorldError):  # Nobody needs to read what is passed over.
        for above, folder in pending:  # The loop appends to it.
            for inner in listed(above, folder)[1]:
                below = f"{above}/{inner.name}"
                sort = NOTHING if inner.is_link else sort_of(below, inner)
                if sort == FILE and inner.name.endswith(ENDINGS):
                    return [_nearly(name, entry.name.lstrip("."), "its name begins with '.', and documents are in it")]
                pending += [(below, inner.place)] if sort == FOLDER else []
    return []


def _listed(name: str, folder: Path) -> tuple[Hashable, list[Entry[Path]]]:
    """Return what tells a folder of the disk from others, and its entries."""
    try:
        status = folder.stat()
        with os.scandir(folder) as entries:
            found = [Entry(entry.name, Path(entry.path), entry.is_symlink()) for entry in entries]
    except FileNotFoundError:
        return None, []
    except OSError as error:
        raise _failure(name or ".", error) from error
    return (status.st_dev, status.st_ino), sorted(found, key=operator.attrgetter("name"))


def _sort(name: str, entry: Entry[Path], allowed: tuple[Path, ...]) -> str:
    """Return what an entry of a disk leads to; links lead to one of the `allowed` folders."""
    if entry.is_link and not links.is_inside(entry.place, allowed):
        return FOLDER_OUTSIDE if os.path.isdir(entry.place) else OUTSIDE  # noqa: PTH112 - it raises nothing
    try:
        mode = entry.place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return NOTHING
    except OSError as error:
        if error.errno == errno.ELOOP:  # A link to itself.
            return NOTHING
        raise _failure(name, error) from error
    return _SORTS.get(stat.S_IFMT(mode), NOTHING)


def _unread(name: str, sort: str) -> list[diagnostics.Diagnostic]:
    """Return the finding on an entry that is neither read nor entered, if its name is that of a document or nearly."""
    said = wording.file_name(name)
    if sort in (OUTSIDE, FOLDER_OUTSIDE):
        if sort == OUTSIDE and not name.endswith(ENDINGS):
            return []  # A file of another name is never read.
        return [_refused(name, links.message(name), "Put what it leads to into the project.", "link-outside")]
    if not name.endswith(ENDINGS):
        ends = (match for match in re.finditer(_NEARLY, name) if match.end() == len(name))
        end = next(ends, None) if sort == FILE else None
        return [_nearly(name, name[: end.start()] + _ending(end[1].lower()))] if end else []
    if sort != FILE:
        return [_refused(name, f"'{said}' is {sort}.", "Rename or remove it.", "not-a-file")]
    return [_refused(name, f"The name '{said}' holds what cannot be printed.", "Rename it.", "not-a-file")]


def _misnamed(name: str, sort: str, head: bytes) -> list[diagnostics.Diagnostic]:
    """Return the finding on a file that begins as a document does, whatever its name is."""
    content = _NO_CONTENT.sub(b"", head, count=1)
    if sort != FILE or name.endswith(ENDINGS) or not _OURS.match(content):
        return []
    stem = name.removesuffix(Path(name).suffix)
    meant = stem if stem.endswith(ENDINGS) else f"{stem}{'.json' if content.startswith(b'{') else '.yaml'}"
    return [_nearly(name, meant, "it holds a document, and its name is that of none")]


def _head(place: Path) -> bytes:
    """Return the first bytes of a file of the disk; none of one that cannot be read, as it does not have to be."""
    with contextlib.suppress(OSError):
        # Of what a system makes, some wait for more to come, such as /proc/kmsg.
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _MOST_BYTES)
        finally:
            os.close(descriptor)
    return b""


def _ending(near: str) -> str:
    """Return the ending of documents that is meant."""
    return f".{near}" if f".{near}" in ENDINGS else {"j": ".json", "y": ".yaml"}[near[0]]


def _templates(folder: str, inside: Collection[str]) -> list[diagnostics.Diagnostic]:
    """Return a finding for each template beside a recipe, as recipes cannot have any yet."""
    found = [name for name in inside if name.endswith(_TEMPLATE)] if names.RECIPE_FILE in inside else []
    message = "A recipe cannot have templates yet."
    return [_refused(f"{folder}/{name}", message, "Remove the file.", "recipe-file") for name in found]


def _require_few(folders: int) -> None:
    """Raise WorldError for a number of folders that no project has."""
    if folders > MOST_FOLDERS:
        message = f"there are more than {MOST_FOLDERS} folders in those of the documents."
        raise errors.WorldError(message, hint="Name folders of documents in kae.yaml and by --inventory.")


def link_to_nothing(name: str) -> errors.WorldError:
    """Return the error on a folder of documents that is a broken link."""
    return errors.WorldError(f"'{wording.file_name(name)}' is a link to nothing.", "Repair the link.")


def no_folder(name: str) -> errors.WorldError:
    """Return the error on a folder of documents that is something else."""
    return errors.WorldError(f"'{wording.file_name(name)}' is not a folder.", "Make it a folder, or remove it.")


def _refused(name: str, message: str, hint: str, code: str) -> diagnostics.Diagnostic:
    span = diagnostics.Span(file=wording.file_name(name))
    return diagnostics.Diagnostic(code=code, span=span, message=message, hint=hint)


@diagnostics.rule("nearly-a-document", "warning")
def _nearly(name: str, meant: str, why: str = "its name is only nearly that of a document") -> diagnostics.Diagnostic:
    """Beside documents no file is named nearly like one, or holds one under another name, and no hidden folder does."""
    better = wording.file_name(meant.rpartition("/")[2].lstrip("#"))
    message = f"'{wording.file_name(name)}' is not read: {why}."
    return _refused(name, message, f"Rename it to {better}, or remove it.", "nearly-a-document")


def _failure(name: str, error: OSError) -> errors.WorldError:
    if isinstance(error, PermissionError):
        return errors.WorldError(f"'{wording.file_name(name)}' may not be read.", "Allow this user to read it.")
    if isinstance(error, NotADirectoryError):
        return no_folder(name)
    return errors.WorldError(f"'{wording.file_name(name)}' cannot be read: {error.strerror or error}.")
