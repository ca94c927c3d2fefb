"""The files that hold documents. Light enough to import in every call."""

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler import diagnostics, errors, names, wording
from compiler.project import links
from compiler.settings import Settings

ENDINGS = (".yaml", ".yml", ".json")
"""The suffixes of document files."""

_NEARLY = re.compile(r"\.(ya?ml|json)(\.(bak|old|orig|rej|save|sw[op]|tmp|txt)|\.?~[0-9]*~?|#)*", re.IGNORECASE)
"""The end of a name that an editor, a merge or the shift key made of a document's: policy.YAML, policy.yaml~."""

_TEMPLATE = ".yaml.j2"

MOST_FOLDERS = 5_000
"""Folders that are read: far more than a fleet needs, and an end where kae.yaml names /proc or /usr."""

FOLDER_HINT = "Put the documents into the project, or name the folder itself."
"""The action where a folder of documents is a link that leads out of the project."""

_HERE = Path()
FILE, FOLDER, NOTHING = "a file", "a folder", "a link that leads to no file"
"""What an entry of a folder is; the other sorts are of disks alone, and git has none of them."""

_SORTS = (
    (stat.S_ISREG, FILE),
    (stat.S_ISDIR, FOLDER),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True, slots=True)
class Input:
    """A document file: its name in findings, and its path."""

    name: str
    path: Path


def of_project(settings: Settings) -> tuple[list[Input], list[diagnostics.Diagnostic]]:
    """Return the document files of the project in the current folder, and the findings on them.

    Raises WorldError where there are no documents.
    """
    files, findings = find(settings.folders)
    findings += _nearly_project_files()
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


def _nearly_project_files(root: Path = _HERE) -> list[diagnostics.Diagnostic]:
    """Return a finding for each file beside the documents' folders that was meant to be kae.yaml."""
    present = sorted(entry.name for entry in os.scandir(root) if entry.name.lower() in ("kae.yaml", "kae.yml"))
    return [_nearly(name, names.PROJECT_FILE) for name in present if name != names.PROJECT_FILE]


def find(folders: Sequence[str | Path], root: Path = _HERE) -> tuple[list[Input], list[diagnostics.Diagnostic]]:
    """Return the document files below folders of `root`, sorted by name, and a finding for each that is no file.

    Hidden names are skipped, and a missing folder counts as empty. Each folder is read once, even if several links
    lead to it; links lead to the root or to one of the folders. Raises WorldError where something cannot be read.
    """
    walk = _Walk(links.folders(folders, root))
    pending = [(name_of(folder, root), root / folder) for folder in folders]
    for name, path in pending:
        if path.is_symlink() and not path.exists():
            raise link_to_nothing(name)
        links.require_inside(name, root, hint=FOLDER_HINT)
    while pending or walk.links:
        if not pending:  # Links come last, so that a document has the name of its real folder.
            walk.links.sort(reverse=True)
            pending = [walk.links.pop()]
        pending += walk.folder(*pending.pop())
    return sorted(walk.inputs, key=lambda item: item.name), walk.findings


def by_cluster(inventories: Iterable[Input]) -> dict[str, tuple[Input, ...]]:
    """Return the files of inventories by cluster, which their names say."""
    found: dict[str, tuple[Input, ...]] = {}
    for item in inventories:
        cluster = names.stem(item.name)
        found[cluster] = (*found.get(cluster, ()), item)
    return found


def require_folder(folder: str | Path, root: Path = _HERE) -> None:
    """Raise WorldError for a named folder that does not exist."""
    if not (root / folder).is_dir():
        raise errors.WorldError(f"'{wording.file_name(str(folder))}' is not a folder.", "Name a folder that is there.")


def read(found: Input) -> bytes:
    """Return the content of a file. Raises WorldError."""
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


def name_of(folder: str | Path, root: Path = _HERE) -> str:
    """Return the prefix of the names in a folder: relative to the root if below it, otherwise as written."""
    path = Path(root / folder).absolute()
    if not path.is_relative_to(root.absolute()):
        return Path(folder).as_posix()
    name = path.relative_to(root.absolute()).as_posix()
    return "" if name == "." else name


class _Walk:
    """A walk through the folders of documents, with its results so far."""

    def __init__(self, allowed: tuple[Path, ...]) -> None:
        self.inputs: list[Input] = []
        self.findings: list[diagnostics.Diagnostic] = []
        self.links: list[tuple[str, Path]] = []
        self._allowed = allowed
        self._read: set[tuple[int, int]] = set()

    def folder(self, name: str, path: Path) -> list[tuple[str, Path]]:
        """Record the documents of a folder, and return the real folders in it."""
        inside = []
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) in self._read:
                return []
            self._read.add((status.st_dev, status.st_ino))
            require_few(len(self._read))
            with os.scandir(path) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failure(name or ".", error) from error
        self.findings += templates(name, [entry.name for entry in ordered])
        for entry in ordered:
            if not entry.name.startswith("."):
                inside += self._entry(f"{name}/{entry.name}" if name else entry.name, entry)
        return inside

    def _entry(self, name: str, entry: "os.DirEntry[str]") -> list[tuple[str, Path]]:
        path, is_link = Path(entry.path), entry.is_symlink()
        if is_link and not links.is_inside(path, self._allowed):
            self.findings += outside(name, is_folder=os.path.isdir(path))  # noqa: PTH112 - it raises nothing
            return []
        try:
            mode = _mode(path)
        except OSError as error:
            raise _failure(name, error) from error
        sort = next((words for test, words in _SORTS if test(mode)), NOTHING)
        if is_read(name, sort):
            self.inputs.append(Input(name, path))
        elif is_entered(name, sort):
            if not is_link:
                return [(name, path)]
            self.links.append((name, path))
        else:
            self.findings += unread(name, sort)
        return []


def is_read(name: str, sort: str) -> bool:
    """Return whether an entry is a document file; `sort` is what it leads to."""
    return name.endswith(ENDINGS) and sort == FILE and wording.file_name(name) == name


def is_entered(name: str, sort: str) -> bool:
    """Return whether an entry is a folder that may hold document files; `sort` is what it leads to."""
    return sort == FOLDER and not name.endswith(ENDINGS)


def unread(name: str, sort: str) -> list[diagnostics.Diagnostic]:
    """Return the finding on an entry that is neither read nor entered, if its name is that of a document or nearly."""
    said = wording.file_name(name)
    if not name.endswith(ENDINGS):
        end = _nearly_end(name) if sort == FILE else None
        return [_nearly(name, f"{name[: end.start()]}.{end[1].lower()}")] if end else []
    if sort != FILE:
        return [_refused(name, f"'{said}' is {sort}.", "Rename or remove it.", "not-a-file")]
    return [_refused(name, f"The name '{said}' holds what cannot be printed.", "Rename it.", "not-a-file")]


def templates(folder: str, inside: Collection[str]) -> list[diagnostics.Diagnostic]:
    """Return a finding for each template beside a recipe, as recipes cannot have any yet."""
    found = [name for name in inside if name.endswith(_TEMPLATE)] if names.RECIPE_FILE in inside else []
    message = "A recipe cannot have templates yet."
    return [_refused(f"{folder}/{name}", message, "Remove the file.", "recipe-file") for name in found]


def outside(name: str, *, is_folder: bool) -> list[diagnostics.Diagnostic]:
    """Return the finding on a link that leads out of the folders of documents; a file of another name is never read."""
    if not name.endswith(ENDINGS) and not is_folder:
        return []
    return [_refused(name, links.message(name), "Put what it leads to into the project.", "link-outside")]


def require_few(folders: int) -> None:
    """Raise WorldError for a number of folders that no project has."""
    if folders > MOST_FOLDERS:
        raise errors.WorldError(
            f"there are more than {MOST_FOLDERS} folders in those of the documents.",
            hint="Name folders of documents in kae.yaml and by --inventory.",
        )


def link_to_nothing(name: str) -> errors.WorldError:
    """Return the error on a folder of documents that is a broken link."""
    return errors.WorldError(f"'{wording.file_name(name)}' is a link to nothing.", "Repair the link.")


def no_folder(name: str) -> errors.WorldError:
    """Return the error on a folder of documents that is something else."""
    return errors.WorldError(f"'{wording.file_name(name)}' is not a folder.", "Make it a folder, or remove it.")


def _refused(name: str, message: str, hint: str, code: str) -> diagnostics.Diagnostic:
    return diagnostics.Diagnostic(
        code=code, span=diagnostics.Span(file=wording.file_name(name)), message=message, hint=hint
    )


def _nearly_end(name: str) -> re.Match[str] | None:
    """Return the end of a name that is nearly, and not, a document's."""
    match = next((found for found in _NEARLY.finditer(name) if found.end() == len(name)), None)
    return None if name.endswith(ENDINGS) else match


def _nearly(name: str, meant: str) -> diagnostics.Diagnostic:
    """Return the finding for a file that is not read, and whose name is nearly one that would be."""
    said, better = wording.file_name(name), wording.file_name(meant.rpartition("/")[2].lstrip("#"))
    return diagnostics.Diagnostic(
        code="nearly-a-document",
        span=diagnostics.Span(file=said),
        message=f"'{said}' is not read: its name is only nearly that of a document.",
        hint=f"Rename it to {better}, or remove it.",
    )


def _mode(path: Path) -> int:
    """Return the mode of a path's target; 0 for a broken link, or a link to itself."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        if error.errno == errno.ELOOP:
            return 0
        raise


def _failure(name: str, error: OSError) -> errors.WorldError:
    if isinstance(error, PermissionError):
        return errors.WorldError(f"'{wording.file_name(name)}' may not be read.", "Allow this user to read it.")
    if isinstance(error, NotADirectoryError):
        return no_folder(name)
    return errors.WorldError(f"'{wording.file_name(name)}' cannot be read: {error.strerror or error}.")
