"""The project of a call: its root, the settings of kae.yaml there, and then the options of the command line.

Light enough for every call; the readers of YAML and schemas are imported only where kae.yaml is read.
"""

import argparse
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from compiler import diagnostics, errors, names, wording
from compiler.output import cache
from compiler.project import document_files, links
from compiler.settings import Limits, Settings

diagnostics.shared_rule(
    "project-settings", "error", "The folders in kae.yaml are separate and exist, and its findings can be set."
)

if TYPE_CHECKING:
    from compiler.formats import documents

HINT = "Put the file itself into the project."
"""The action where the project file is a link that leads out of the project."""

Data = Mapping[str, Any]
"""The content of a project file without mistakes."""

_PATHS = ("file", "files", "findings_file", "inventory", "kubeconfig", "metrics", "output_dir", "pods", "target")
"""The arguments that are paths, which people write for the folder that they are in."""

_DOCUMENT = rb"(?m)^kind *: *[\"']?(KAEPolicy|DevicePolicy|KAECluster|NodeInventory|Recipe)\b"
"""A document may be called kae.yaml, too; that of a policy 'kae' often is."""

_MOST = 64 * 1024


def enter(arguments: argparse.Namespace) -> None:
    """Go to the root of the project around the current folder, and turn the paths of the call to it."""
    try:
        here = Path.cwd()
    except OSError as error:
        raise errors.WorldError(f"the current folder cannot be entered: {error.strerror}.") from error
    top = root(here)
    if top is None or top == here:
        return
    os.chdir(top)
    below = str(here.relative_to(top))
    for name in _PATHS:
        value = getattr(arguments, name, None)
        if isinstance(value, list):
            setattr(arguments, name, [_turned(below, path) for path in value])
        elif value is not None:
            setattr(arguments, name, _turned(below, value))
    if kubeconfigs := os.environ.get("KUBECONFIG"):
        os.environ["KUBECONFIG"] = os.pathsep.join(_turned(below, path) for path in kubeconfigs.split(os.pathsep))


def root(folder: Path) -> Path | None:
    """Return the first folder upwards that is the root of a project, in the same git repository; None without one."""
    for candidate in (folder, *folder.parents):
        if (candidate / names.POLICIES).is_dir() or _is_project_file(candidate / names.PROJECT_FILE):
            return candidate
        if os.path.lexists(candidate / ".git"):
            return None
    return None


def in_repository(name: str) -> str:
    """Return a path of the project from the root of its git repository; without one, the path itself.

    The current folder is the root of the project.
    """
    here = Path.cwd()
    top = next((folder for folder in (here, *here.parents) if os.path.lexists(folder / ".git")), here)
    return name if top == here else os.path.normpath(os.path.join(here.relative_to(top), name))  # noqa: PTH118


def _is_project_file(path: Path) -> bool:
    """Return whether a path is a project file, or something in its place, of which its reader says what is wrong."""
    if links.leads_out(path.name, path.parent) or not path.is_file() or not os.access(path, os.R_OK):
        return os.path.lexists(path)
    with path.open("rb") as file:
        return re.search(_DOCUMENT, file.read(_MOST)) is None


def _turned(below: str, path: str) -> str:
    """Return a path for the root that people wrote in a folder below it, as git does; `-` is standard input."""
    return path if path in ("", "-") or Path(path).is_absolute() else os.path.normpath(os.path.join(below, path))  # noqa: PTH118


def of(arguments: argparse.Namespace) -> Settings:
    """Return the settings of a call; its first use reads kae.yaml. Raises WrongFileError and WorldError."""
    if not hasattr(arguments, "settings"):
        remember(arguments, data())
    settings: Settings = arguments.settings
    return settings


def remember(arguments: argparse.Namespace, found: Data) -> Settings:
    """Return the settings of a call whose kae.yaml holds `found`, and keep them for `of`."""
    settings = settings_of(found)
    if inventories := getattr(arguments, "inventory", ()):
        for folder in inventories:
            document_files.require_folder(folder)
        settings = settings._replace(inventories=tuple(inventories))
    output = getattr(arguments, "output_dir", None)
    arguments.settings = settings if output is None else settings._replace(output=output, output_is_named=True)
    return arguments.settings  # type: ignore[no-any-return]  # a namespace has no types


def settings_of(found: Data) -> Settings:
    """Return what a project file says, and the defaults for what it leaves out."""
    plain = Settings()
    folders = [document_files.name_of(folder) or "." for folder in found.get("inventory", plain.inventories)]
    limits = found.get("limits", {})
    return Settings(
        policies=document_files.name_of(found.get("policies", plain.policies)) or ".",
        recipes=document_files.name_of(found.get("recipes", plain.recipes)) or ".",
        inventories=tuple(folders),
        output=found.get("output", plain.output),
        applied=in_repository(found.get("output", plain.applied)),
        extra=tuple(os.path.basename(os.path.normpath(folder)) for folder in found.get("extra", ())),  # noqa: PTH119
        severities=MappingProxyType(dict(found.get("findings", {}))),
        limits=Limits(
            removed_percent=limits.get("removedPercent", plain.limits.removed_percent),
            step_percent=limits.get("stepPercent", plain.limits.step_percent),
        ),
    )


def output(settings: Settings) -> Path:
    """Return the folder of outputs. Raises WorldError for a link that only the project file leads to."""
    path, here = Path(settings.output), Path.cwd()
    if settings.output_is_named:
        return path
    whole = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the link
    inside = whole.is_relative_to(here) and whole != here
    parts = [whole, *(parent for parent in whole.parents if inside and parent.is_relative_to(here) and parent != here)]
    for part in reversed(parts):
        if part.is_symlink():
            name = part.relative_to(here) if inside else part
            message = f"'{wording.file_name(str(name))}' is a link, and output is written to a real folder."
            raise errors.WorldError(message, hint="Replace it by a folder, or name where it leads by --output-dir.")
    return path


def file() -> document_files.Input | None:
    """Return the project file; None where there is none. Raises WorldError for what is no file."""
    if not os.path.lexists(names.PROJECT_FILE):
        return None
    links.require_inside(names.PROJECT_FILE, hint=HINT)
    if not Path(names.PROJECT_FILE).is_file():
        raise no_file()
    return document_files.Input(names.PROJECT_FILE, Path(names.PROJECT_FILE))


def no_file() -> errors.WorldError:
    """Return the error on a project file that is a folder, or a link to nothing."""
    return errors.WorldError(f"'{names.PROJECT_FILE}' is no regular file.", hint="Rename or remove it.")


def holds(found: Data) -> bool:
    """Return whether the folders that a project file names still exist."""
    return all(Path(folder).is_dir() for _, folder in _stated(found))


def data() -> Data:
    """Return what kae.yaml holds, nothing where it is missing or empty. Raises WrongFileError and WorldError."""
    item = file()
    return parsed(document_files.read(item)) if item else {}


def parsed(content: bytes, has_folder: Callable[[str], bool] = os.path.isdir) -> Data:
    """Return what the bytes of a project file say. Raises WrongFileError."""
    from compiler import schema  # noqa: PLC0415 - only where there is a file to read
    from compiler.formats import decode  # noqa: PLC0415
    from compiler.project import package_data  # noqa: PLC0415

    read, found = decode.decode(names.PROJECT_FILE, content)
    if read and not diagnostics.has_errors(found):
        judge = schema.Judge(package_data.schemas())
        found = list(_shapeless(read))
        found = found or judge.faults(read[0], "kaeproject") or list(_contradictions(read[0], has_folder))
    if diagnostics.has_errors(found):
        raise errors.WrongFileError(diagnostics.merged(found))
    return read[0].data if read else {}


def _shapeless(read: "list[documents.Document]") -> Iterator[diagnostics.Diagnostic]:
    """A project file is one mapping."""
    if not isinstance(read[0].data, dict):
        message = "Expected a mapping with the settings of the project."
        yield _finding(read[0].span(), "not-an-object", message, "Write a setting, such as output: output.")
    for document in read[1:]:
        yield _finding(document.span(), "project-settings", "A project file holds one document.", "Merge the two.")


def _contradictions(
    document: "documents.Document", has_folder: Callable[[str], bool]
) -> Iterator[diagnostics.Diagnostic]:
    """Yield the settings that a schema accepts and the project cannot have."""
    found, settings = document.data, settings_of(document.data)
    for path, folder in _stated(found):
        if not has_folder(folder):
            message = f"There is no folder {wording.quoted(folder)}."
            hint = "Correct the path, or make the folder; git keeps none that holds no file."
            yield _finding(document.span(*path), "project-settings", message, hint)
    # Policies, inventories (decision 0008) and output are in folders of their own.
    for field, other in dict.fromkeys(_overlaps(settings)):
        message = f"'{field}' and '{other}' are one folder, or one holds the other."
        place = field if field in found else other
        yield _finding(document.span(place), "project-settings", message, "Name separate folders.")
    for index, folder in enumerate(found.get("extra", ())):
        if os.path.dirname(os.path.normpath(folder)) != os.path.normpath(settings.output):  # noqa: PTH120
            name = wording.quoted(settings.output)
            message = f"{wording.quoted(folder)} is not directly in {name}, the folder of outputs."
            hint = f"Name a folder beside those of the clusters, such as {settings.output.rstrip('/')}/extra."
            yield _finding(document.span("extra", index), "project-settings", message, hint)
    # Git ignores its own folder and that of the cache.
    if inside := {links.GIT, cache.FOLDER} & set(Path(settings.output).parts):
        message = f"'output' is in {inside.pop()}, whose files git does not keep."
        yield _finding(document.span("output"), "project-settings", message, "Name another folder.")
    for code, severity in found.get("findings", {}).items():
        if severity != "error" and not diagnostics.CODES[code].can_be_lowered:
            message, hint = f"'{code}' is always an error.", "Remove the line: without the error, output is undefined."
            yield _finding(document.key_span("findings", code), "project-settings", message, hint)


def of_clusters(
    settings: Settings, clusters: Collection[str], document: "documents.Document | None" = None
) -> Iterator[diagnostics.Diagnostic]:
    """Yield a finding for each folder of people's own objects that is the folder of a cluster. Raises WorldError."""
    for name, span in _extra_places(settings, clusters, document):
        message = f"The folder of cluster '{name}' cannot hold objects of your own."
        yield _finding(span, "project-settings", message, "Name a folder that is no cluster's.")


def of_outputs(settings: Settings, outputs: Collection[str]) -> Iterator[diagnostics.Diagnostic]:
    """Yield a finding for each folder of people's own objects that has output of the compiler. Raises WorldError."""
    for name, span in _extra_places(settings, outputs):
        message = f"'{settings.output}/{name}' holds an index.json of the compiler, so its files are not your own."
        hint = "Remove this line to have that output removed, or that index.json to keep the files."
        yield _finding(span, "project-settings", message, hint)


def _extra_places(
    settings: Settings, folders: Collection[str], document: "documents.Document | None" = None
) -> Iterator[tuple[str, diagnostics.Span]]:
    """Yield the folders of people's own objects that are among some, with their places. Raises WorldError.

    `document` is the project file if it is read already.
    """
    taken = [(index, name) for index, name in enumerate(settings.extra) if name in folders]
    if document is None and taken and (item := file()):
        from compiler.formats import decode  # noqa: PLC0415 - only for the place of a mistake

        document = decode.decode(item.name, document_files.read(item))[0][0]
    if document is not None:
        yield from ((name, document.span("extra", index)) for index, name in taken)


def _overlaps(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the pairs of settings whose folders are one, or one in the other; inventories may be."""
    stated = [
        ("recipes", settings.recipes),
        ("output", settings.output),
        *(("inventory", folder) for folder in settings.inventories),
        ("policies", settings.policies),
    ]
    folders = [(field, links.real(folder)) for field, folder in stated]
    for (field, one), (other, another) in itertools.combinations(folders, 2):
        # Where policies are in the root, recipes are below them.
        is_root = (field, other) == ("recipes", "policies") and settings.policies == "." != settings.recipes
        if field != other and not is_root and (one.is_relative_to(another) or another.is_relative_to(one)):
            yield field, other


def _stated(found: Data) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the folders of documents that a project file names, with their paths in it."""
    for field in ("policies", "recipes"):
        if field in found:
            yield (field,), found[field]
    for index, folder in enumerate(found.get("inventory", ())):
        yield ("inventory", index), folder


def _finding(span: diagnostics.Span, code: str, message: str, hint: str) -> diagnostics.Diagnostic:
    return diagnostics.Diagnostic(code=code, span=span, message=message, hint=hint)
