"""Looking for entries of output/ that belong to no cluster, and for files that a GitOps engine reads by itself.

Nothing here changes the disk or follows a link.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from compiler import wording
from compiler.output import scan

_GIT = ".git"
_HARMLESS = (".gitkeep", "README.md")
"""Files directly in output/ that only people read. By .gitignore and .gitattributes, git would have other files, or
other bytes in them, than those that are compared here."""

_PLACE = "kustomization.yaml"
"""The one such file that the compiler writes, directly in the folder of a cluster."""

# Argo CD: https://argo-cd.readthedocs.io/en/stable/user-guide/tool_detection/ and parameters/. Flux:
# https://fluxcd.io/flux/components/source/gitrepositories/#excluding-files. The rest is kustomize's.
_NAMES = frozenset({"kustomization", "kustomization.yml", _PLACE, ".krmignore", "chart.yaml", ".sourceignore"})
_BEGINNING = ".argocd-"
_ENDING = "Chart.yaml"
"""Argo CD takes a folder with any name that ends so for a Helm chart."""


def is_engine_file(name: str) -> bool:
    """Return whether a GitOps engine reads a file of this name by itself; case does not count, as on some disks."""
    lower = name.lower()
    return lower in _NAMES or lower.startswith(_BEGINNING) or name.endswith(_ENDING)


def engine_files(
    output: Path, clusters: Collection[str], extra: Collection[str], skipped: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the path of each file below output/ that an engine reads by itself. Raises WorldError.

    `clusters` are declared, folders of `extra` are people's own, and those `skipped` are known to hold none.
    """
    left_out = {_GIT, *skipped}
    with scan.io_errors("read", output):
        paths = [
            path
            for entry in _entries(output)
            if entry.name not in left_out and not _is_extra(entry, extra)
            for path in _engine_files(entry, clusters)
        ]
    return tuple(map(wording.file_name, paths))


def entries(output: Path, clusters: Collection[str], extra: Collection[str]) -> tuple[str, ...]:
    """Return the name of each entry of output/ that belongs to no cluster and is no `extra`. Raises WorldError."""
    known = frozenset(clusters)
    with scan.io_errors("read", output):
        names = [
            f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
            for entry in _entries(output)
            if entry.name not in known and not _is_harmless(entry) and not _is_extra(entry, extra)
            if scan.is_filled(entry)
        ]
    return tuple(map(wording.file_name, names))


def extra_folders(output: Path, extra: Collection[str]) -> Mapping[str, int]:
    """Return the number of files in each of the folders of `extra` that are there. Raises WorldError."""
    if not extra:
        return {}
    with scan.io_errors("read", output):
        own = [entry for entry in _entries(output) if _is_extra(entry, extra)]
        return {
            f"{output}/{wording.file_name(entry.name)}": sum(1 for _ in scan.files_below(Path(entry.path)))
            for entry in own
        }


def _engine_files(entry: os.DirEntry[str], clusters: Collection[str]) -> list[str]:
    if not entry.is_dir(follow_symlinks=False):
        return [entry.name] if is_engine_file(entry.name) else []
    below = ((f"{entry.name}/{inner}", one) for inner, one in scan.files_below(Path(entry.path)))
    return sorted(name for name, one in below if is_engine_file(one.name) and not _is_place(one, name, clusters))


def _is_place(entry: os.DirEntry[str], path: str, clusters: Collection[str]) -> bool:
    """Return whether a file is the kustomization.yaml of a cluster, declared or with output of the compiler."""
    cluster, _, name = path.partition("/")
    if name != _PLACE or not entry.is_file(follow_symlinks=False):
        return False
    return cluster in clusters or scan.is_ours(Path(entry.path).parent)


def _is_harmless(entry: os.DirEntry[str]) -> bool:
    return entry.name == _GIT or (entry.name in _HARMLESS and entry.is_file(follow_symlinks=False))


def _is_extra(entry: os.DirEntry[str], extra: Collection[str]) -> bool:
    return entry.name in extra and entry.is_dir(follow_symlinks=False)


def _entries(output: Path) -> list[os.DirEntry[str]]:
    return scan.entries(output) if output.is_dir() else []
