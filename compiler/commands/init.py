"""`kae init`: a new GitOps repository that compiles at once."""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from compiler import __version__, cli, errors, names, wording
from compiler.inventory import canonical_form, snapshot
from compiler.project import package_data


def run(arguments: argparse.Namespace) -> int:
    """Make the files of a new repository, and print the next steps."""
    cluster = arguments.cluster
    folder = Path(arguments.path)
    try:
        wanted = texts(cluster)
        _require_absent(folder, wanted)
        for name, text in sorted(wanted.items()):
            _write(folder / name, text)
    except OSError as error:
        raise errors.WorldError(
            f"'{wording.file_name(str(error.filename or folder))}' cannot be made: {error.strerror or error}."
        ) from error
    sys.stdout.write(_said(folder, cluster, sorted(wanted)))
    return cli.FINE


def texts(cluster: str) -> Mapping[str, str]:
    """Return every file of a new repository by its path, for a first cluster of this name."""
    top = Path(package_data.folder("templates")) / "init"
    found = {}
    for path in sorted(top.rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            text = text.replace("@CLUSTER@", cluster).replace("@VERSION@", __version__)
            found[path.relative_to(top).as_posix()] = text
    for stem in names.EDITED_SCHEMAS:
        found[f"schemas/{stem}.json"] = (Path(package_data.folder("schemas")) / f"{stem}.json").read_text(
            encoding="utf-8"
        )
    name = snapshot.ClusterName(cluster)
    empty = snapshot.Inventory(cluster=name, file="", nodes=())
    found[f"{names.INVENTORY}/{cluster}.json"] = canonical_form.text(empty)
    return found


def _require_absent(folder: Path, wanted: Iterable[str]) -> None:
    """Raise WorldError where a file exists that would be overwritten; other files may exist."""
    present = [name for name in sorted(wanted) if os.path.lexists(folder / name)]
    if present:
        files = wording.listed([f"'{wording.file_name(str(folder / name))}'" for name in present], most=1)
        raise errors.WorldError(
            f"{files} would be overwritten; nothing was written.",
            hint="Name a new folder, or move these files away.",
        )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
        if path.suffix == ".sh":
            os.fchmod(file.fileno(), 0o755)


def _said(folder: Path, cluster: str, made: Iterable[str]) -> str:
    lines = [f"Made in {wording.file_name(str(folder.resolve()))}:", *(f"  {name}" for name in made), "", "Next:"]
    if folder.resolve() != Path().resolve():
        lines.append(f"  cd {wording.file_name(str(folder))}")
    if not (folder / ".git").exists():
        lines.append("  git init --initial-branch=main")
    inventory_file = f"{names.INVENTORY}/{cluster}.json"
    lines += [
        f"  kubectl get nodes -o json | kae inventory --cluster {cluster} -o {inventory_file}",
        "  kae compile",
        "  git add --all && git commit",
    ]
    return "\n".join(lines) + "\n"
