"""A project on disk: where its documents are, in the current folder. Light enough for every call."""

from collections.abc import Iterable, Sequence

from compiler import diagnostics, errors, names
from compiler.project import document_files


def inputs(inventories: Sequence[str]) -> tuple[list[document_files.Input], list[diagnostics.Diagnostic]]:
    """The document files of the project; `inventories` are folders that stand in for inventory/."""
    for folder in inventories:
        document_files.require_folder(folder)
    found, notes = document_files.find([names.POLICIES, *(inventories or [names.INVENTORY])])
    if not found and not notes:
        raise errors.WorldError(
            "there are no documents: neither policies/ nor inventory/ holds a .yaml, .yml or .json file.",
            hint="Run `kae init` for a new project, or `kae -C DIR` to work in another folder.",
        )
    return found, notes


def require_clusters(wanted: Sequence[str], known: Iterable[str]) -> None:
    """Raises WorldError for a cluster that was asked for and that no document names."""
    have = sorted(known)
    for name in wanted:
        if name not in have:
            raise errors.WorldError(
                f"there is no cluster '{name}'.",
                hint=f"Clusters are {', '.join(have)}." if have else "No document names a cluster.",
            )
