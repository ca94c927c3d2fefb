"""The projects, each as two revisions of a repository: random ones with an edit, and golden ones."""

import contextlib
import functools
import json
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests import project, revisions
from tests.fuzz import corpus, structure, text
from tests.property.fleets import documents
from tests.property.fleets import fleet as fleets
from tests.property.revision_pairs import trial
from tests.property.walk import edits, files

KINDS = ("kae", "recipes", "both")
"""The policies of a project: KAEPolicies, DevicePolicies, or both."""
GOLDEN = tuple(sorted(mark.parent for mark in corpus.ROOT.glob("tests/golden/*/why.md")))

_NODES = 60
_POLICIES = 12
"""The most of a fleet: more fleets find more than larger ones."""
_APART = {"enabled", "image", "kernelMappings", "repository", "rollout", "source", "version"}
"""Fields that a policy has together, or not at all."""
_SHARED = {"allocationPolicy", "drain", "enabledCleanup", "maxUnavailable", "metrics", "resources", "state"}
"""Fields of both kinds of policies."""


def drawn(seed: int, kind: str, top: Path) -> None:
    """Write a random project to `first`, a third of them with mistakes, and the same with an edit to `second`."""
    draw = random.Random(f"{kind} {seed}")  # noqa: S311 - projects are drawn again from their seed
    known = [one.files for one in corpus.seeds() if _kind(b"".join(one.files.values())) == kind]
    first = project.write(top / "first", draw.choice(known) if draw.random() < 0.3 else _fleet(draw, seed, kind))
    if draw.random() < 1 / 3:
        _edit(draw, first, {**edits.MISTAKES, **_CHANGES, **_DAMAGES})
    revisions.commit(first)
    second = shutil.copytree(first, top / "second")
    _edit(draw, second, {**trial.SORTS, **_CHANGES})
    revisions.commit(second)


def golden(root: Path, top: Path) -> None:
    """Write a golden project to `first`, and the example fleet in its place to `second`."""
    for place, origin in ((top / "first", root), (top / "second", corpus.ROOT)):
        for name in ("policies", "recipes", "inventory"):
            if (origin / name).exists():
                shutil.copytree(origin / name, place / name)
        if origin == corpus.ROOT:
            shutil.copytree(top / "first/.git", place / ".git")
        revisions.commit(place)


def _kind(whole: bytes) -> str:
    return "kae" if b"kind: Recipe" not in whole else "both" if b"kind: KAEPolicy" in whole else "recipes"


def _fleet(draw: random.Random, seed: int, kind: str) -> Mapping[str, str]:
    """Return a random fleet, half of them in a golden cluster; most without policies that others make a fault."""
    found = fleets.drawn(seed) if kind == "kae" else fleets.with_recipes(seed)
    cluster, name = found.cluster, found.cluster["metadata"]["name"]
    if draw.random() < 0.5:
        cluster = documents.document("KAECluster", name, draw.choice(_golden("KAECluster")).get("spec", {}))
    policies = [one for one in found.policies if kind != "recipes" or one["kind"] == "DevicePolicy"]
    if draw.random() < 0.7:
        policies = [one for one in policies if one["metadata"]["name"] != "intruder" and not one["spec"].get("default")]
    policies = draw.sample(policies, min(_POLICIES, len(policies)))
    for policy in policies:
        _take(draw, policy)
    named = {f"policies/clusters/{name}": cluster} | {f"policies/{number}": one for number, one in enumerate(policies)}
    named |= {f"recipes/{recipe['metadata']['name']}/recipe": recipe for recipe in found.recipes}
    nodes = json.dumps({"apiVersion": "v1", "kind": "List", "items": found.nodes[:_NODES]}, indent=1)
    return {f"{path}.yaml": _yaml(data) for path, data in named.items()} | {f"inventory/{name}.json": nodes}


@functools.cache
def _golden(kind: str) -> list[Any]:
    """Return the documents of a kind in the example fleet and the golden projects."""
    every = [one.data() for one in corpus.seeds() if one.mutated.endswith(".yaml")]
    return [document for data in every for document in data if document["kind"] == kind]


def _yaml(*data: Any) -> str:
    return str(yaml.dump_all(data, Dumper=yaml.CSafeDumper, sort_keys=False))


def _take(draw: random.Random, policy: Any) -> None:
    """Give a part of a policy the fields of a golden KAEPolicy."""
    part = draw.choice(("driver", "devicePlugin"))
    other = draw.choice(_golden("KAEPolicy"))["spec"].get(part, {})
    fields = other.keys() - _APART if policy["kind"] == "KAEPolicy" else other.keys() & _SHARED
    if part in policy["spec"]:
        policy["spec"][part].update((key, other[key]) for key in sorted(fields))


def _edit(draw: random.Random, folder: Path, sorts: Mapping[str, edits.Edit]) -> None:
    for sort in draw.sample(sorted(sorts), draw.choice((1, 1, 2))):
        # An earlier edit, or the form of an inventory, may be in its way.
        with contextlib.suppress(OSError, AttributeError, LookupError, TypeError, ValueError, yaml.YAMLError):
            sorts[sort](draw, folder)


def _change(act: Callable[[random.Random, Any], Any]) -> edits.Edit:
    """Return the edit of a document by an act, which returns it, or None where it is changed in place."""

    def edit(draw: random.Random, folder: Path) -> bool:
        path = draw.choice([path for path in sorted(folder.glob("*/**/*.yaml")) if path.parts[-2] != "inventory"])
        data = list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))
        at = draw.randrange(len(data))
        data[at] = act(draw, data[at]) or data[at]
        path.write_text(_yaml(*data))
        return True

    return edit


def _damage(draw: random.Random, folder: Path) -> bool:
    path = draw.choice(files.documents(folder))
    path.write_bytes(text.mutated(draw, path.read_bytes()))
    return True


_CHANGES: Mapping[str, edits.Edit] = {
    **{f"take fields of another policy {number}": _change(_take) for number in range(4)},
    **{f"change along the schema {number}": _change(structure.near) for number in range(4)},
}
"""Each is drawn as often as it is numbered."""
_DAMAGES: Mapping[str, edits.Edit] = {"change against the schema": _change(structure.far), "damage a file": _damage}
