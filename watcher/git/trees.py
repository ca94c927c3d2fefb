"""Replace one file in a commit's tree, and keep everything else."""

from collections.abc import Sequence

from watcher.git import git, git_errors


def replaced(tool: git.Git, commit: str | None, path: str, blob: str) -> str:
    """Return the tree of a commit, or an empty one, with this blob as the plain file at a path.

    It writes one tree for each folder of the path. An index, the usual way, reads the whole repository, and drops what
    it cannot express, such as an empty tree.

    Raises:
        git_errors.Obstructed: A folder or the file on the path is something else.
    """
    return _grafted(tool, commit, path.split("/"), blob, "")


def check(entry: git.Entry, path: str, kind: str = "blob") -> None:
    """Check that an entry is a plain file, or a folder if kind is tree.

    Raises:
        git_errors.Obstructed: It is something else.
    """
    if entry.type != kind or entry.mode == git.LINK:
        what = "link" if entry.mode == git.LINK else {"tree": "folder", "blob": "file"}.get(entry.type, "submodule")
        wanted = "folder" if kind == "tree" else "plain file"
        raise git_errors.Obstructed(f"'{path}' in the repository is a {what}, where a {wanted} is needed.")


def _grafted(tool: git.Git, tree: str | None, path: Sequence[str], blob: str, above: str) -> str:
    name, *rest = path
    entries = tool.entries(tree) if tree is not None else ()
    old = next((entry for entry in entries if entry.name == name), None)
    if old is not None:
        check(old, f"{above}{name}", "tree" if rest else "blob")
    if rest:
        below = _grafted(tool, old.object if old is not None else None, rest, blob, f"{above}{name}/")
        new = git.Entry(mode=git.TREE, type="tree", object=below, name=name)
    else:
        new = git.Entry(mode=git.FILE, type="blob", object=blob, name=name)
    return tool.write_tree((*(entry for entry in entries if entry is not old), new))
