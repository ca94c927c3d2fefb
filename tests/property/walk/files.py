"""The files of a fleet, and edits of what they hold."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml


def documents(folder: Path) -> list[Path]:
    """Return the documents of a folder."""
    return sorted([*folder.glob("policies/**/*.yaml"), *folder.glob("inventory/*.json")])


def policies(folder: Path) -> list[Path]:
    """Return the files of policies."""
    return sorted(path for path in folder.glob("policies/*.yaml") if "kind: KAEPolicy" in path.read_text())


def one(draw: random.Random, paths: list[Path]) -> Path | None:
    """Return one of some files; None where there is none."""
    return draw.choice(paths) if paths else None


def policy(draw: random.Random, folder: Path, edit: Callable[[dict[str, Any]], object]) -> bool:
    """Edit the spec of a policy."""
    return document(one(draw, policies(folder)), edit)


def cluster(draw: random.Random, folder: Path, edit: Callable[[dict[str, Any]], object]) -> bool:
    """Edit the spec of a KAECluster."""
    return document(one(draw, sorted(folder.glob("policies/clusters/*.yaml"))), edit)


def document(path: Path | None, edit: Callable[[dict[str, Any]], object]) -> bool:
    """Edit the spec of a document; return False where it has none."""
    try:
        data = yaml.safe_load(path.read_text()) if path else None
    except yaml.YAMLError:
        return False
    if not path or not isinstance(data, dict) or not isinstance(data.get("spec"), dict):
        return False
    edit(data["spec"])
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return True


def nodes(draw: random.Random, folder: Path, edit: Callable[[list[dict[str, Any]]], object]) -> bool:
    """Edit the nodes of an inventory; return False where none can be read."""
    path = one(draw, sorted(folder.glob("inventory/*.json")))
    try:
        data = json.loads(path.read_text()) if path else None
    except ValueError:
        return False
    if not path or data is None:
        return False
    edit(data["items"])
    path.write_text(json.dumps(data, indent=1))
    return True


def some(draw: random.Random, items: list[Any]) -> list[Any]:
    """Return one, some or all of a list."""
    return draw.sample(items, min(len(items), draw.choice((1, 1, 2, 3, 6, len(items)))))
