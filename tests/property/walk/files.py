"""The files of a fleet, and edits of what they hold."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

_POLICY = re.compile("kind: (KAE|Device)Policy")


class _Dumper(yaml.SafeDumper):
    """Quotes also what readers of YAML 1.2 take for a number, as they do the PCI vendor 19e5."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile("[0-9]+e[0-9]+$"), list("0123456789"))


def dumped(data: Any, *, flow: bool | None = False) -> str:
    """Return the text of a document; None for `flow` puts innermost lists and maps onto one line."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=flow)


def documents(folder: Path) -> list[Path]:
    """Return the documents of a folder."""
    return sorted([*texts(folder), *folder.glob("inventory/*.json")])


def texts(folder: Path) -> list[Path]:
    """Return the documents that people write."""
    return sorted([*folder.glob("policies/**/*.yaml"), *recipes(folder)])


def policies(folder: Path) -> list[Path]:
    """Return the files of policies."""
    return sorted(path for path in folder.glob("policies/*.yaml") if _POLICY.search(path.read_text()))


def recipes(folder: Path) -> list[Path]:
    """Return the files of recipes; there is one in a fleet of DevicePolicies, and none in one of KAEPolicies."""
    return sorted(folder.glob("recipes/*/*.yaml"))


def recipe(folder: Path) -> str:
    """Return the recipe of a fleet."""
    return next((path.parent.name for path in recipes(folder)), "kae")


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
    """Edit the spec of a document; return False where it has none, or one that was truncated."""
    try:
        data = yaml.safe_load(path.read_text()) if path else None
    except yaml.YAMLError:
        return False
    if not path or not isinstance(data, dict) or not isinstance(data.get("spec"), dict):
        return False
    try:
        edit(data["spec"])
    except (AttributeError, LookupError, TypeError):  # A field of it is gone, or has lost its value.
        return False
    path.write_text(dumped(data))
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
