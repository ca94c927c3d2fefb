"""The root of a project: the folder in which its commands work. Light enough to import in every call."""

import argparse
import os
import re
from pathlib import Path

from compiler import errors, names
from compiler.project import links

_PATHS = ("file", "files", "findings_file", "inventory", "kubeconfig", "output_dir", "target")
"""The arguments that are paths, which people write for the folder that they are in."""

_DOCUMENT = re.compile(rb"^kind *: *[\"']?(KAEPolicy|DevicePolicy|KAECluster|NodeInventory|Recipe)\b", re.MULTILINE)
"""A document may be called kae.yaml, too; that of a policy 'kae' often is."""

_MOST = 64 * 1024


def enter(arguments: argparse.Namespace) -> None:
    """Go to the root of the project around the current folder, and turn the paths of the call to it."""
    try:
        here = Path.cwd()
    except OSError as error:
        raise errors.WorldError(f"the current folder cannot be entered: {error.strerror}.") from error
    root = find(here)
    if root is None or root == here:
        return
    os.chdir(root)
    below = str(here.relative_to(root))
    for name in _PATHS:
        value = getattr(arguments, name, None)
        if isinstance(value, list):
            setattr(arguments, name, [_turned(below, path) for path in value])
        elif value is not None:
            setattr(arguments, name, _turned(below, value))
    if kubeconfigs := os.environ.get("KUBECONFIG"):
        os.environ["KUBECONFIG"] = os.pathsep.join(_turned(below, path) for path in kubeconfigs.split(os.pathsep))


def find(folder: Path) -> Path | None:
    """Return the first folder upwards that is the root of a project, in the same git repository; None without one."""
    for candidate in (folder, *folder.parents):
        if (candidate / names.POLICIES).is_dir() or _is_project_file(candidate / names.PROJECT_FILE):
            return candidate
        if os.path.lexists(candidate / ".git"):
            return None
    return None


def _is_project_file(path: Path) -> bool:
    """Return whether a path is a project file, or something in its place, of which its reader says what is wrong."""
    if links.leads_out(path.name, path.parent) or not path.is_file() or not os.access(path, os.R_OK):
        return os.path.lexists(path)
    with path.open("rb") as file:
        return _DOCUMENT.search(file.read(_MOST)) is None


def _turned(below: str, path: str) -> str:
    """Return a path for the root that people wrote in a folder below it, as git does; `-` is standard input."""
    return path if path in ("", "-") or Path(path).is_absolute() else os.path.normpath(os.path.join(below, path))  # noqa: PTH118
