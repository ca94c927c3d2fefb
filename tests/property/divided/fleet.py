"""A random project of several clusters: what it compiled to once, and what people have done to it since."""

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from compiler.inventory import canonical_form, reduction, snapshot
from tests import in_process, project
from tests.property.fleets import documents, machines
from tests.property.walk import edits

_NAMES = ("east", "west-dc1", "stage-2", "edge.lab", "north", "x1", "lab-3", "prod.eu")

_CODES = ("policy-matches-nothing", "cluster-undeclared", "node-unknown", "foreign-file", "unsupported-os")

Act = Callable[[random.Random, Path], object]


def prepare(seed: int, folder: Path) -> list[str]:
    """Write the project of a seed; return the acts of people after the last compile, of which there may be none.

    Every second project was never compiled, and nothing is wrong with it but for what chance brings.
    """
    draw = random.Random(seed)  # noqa: S311 - projects are drawn again from their seed
    _draw(draw, folder)
    raw = {f"inventory/{name}": content.decode() for name, content in project.tree(folder / "inventory").items()}
    _convert(seed, folder)
    if seed % 2 == 0:
        return []
    in_process.kae(folder, "compile")
    # The acts are for inventories as kubectl prints them.
    shutil.rmtree(folder / "inventory")
    project.write(folder, raw)
    drawn = [draw.choice(sorted(_ACTS)) for _ in range(draw.choice((1, 1, 2, 4)))]
    done = [name for name in drawn if _ACTS[name](draw, folder) is not False]
    _convert(seed, folder)
    return done


def _draw(draw: random.Random, folder: Path) -> None:
    """Write policies and clusters, and the inventories as lists of Nodes."""
    for name in ("policies/clusters", "inventory"):
        (folder / name).mkdir(parents=True)
    clusters = draw.sample(_NAMES, draw.randint(2, len(_NAMES)))
    kernels = draw.sample(machines.KERNELS, draw.randint(1, 4))
    count = draw.randint(1, 6)
    pools = draw.sample(machines.POOLS, 2 * count)
    nodes = [f"node-{number:02}" for number in range(24)]
    scene = documents.Scene(cluster=clusters[0], names=tuple(nodes), kernels=tuple(kernels))
    _put(draw, folder, list(_policies(draw, count, scene)))
    if draw.random() < 0.3:
        severities = {code: draw.choice(("error", "warning", "ignore")) for code in draw.sample(_CODES, 2)}
        project.write(folder, {"kae.yaml": yaml.safe_dump({"findings": severities})})
    declares = draw.random() < 0.7
    for cluster in clusters:
        is_declared, is_taken = declares, not declares or draw.random() < 0.8
        if is_declared:
            data = documents.document("KAECluster", cluster, _cluster(draw))
            project.write(folder, {f"policies/clusters/{cluster}.yaml": yaml.safe_dump(data)})
        if is_taken:
            hosts = [machines.machine(draw, name, kernels, pools) for name in nodes[: draw.randint(1, 24)]]
            items = [host.node(host.device_labels) for host in hosts]
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
            project.write(folder, {f"inventory/{cluster}.json": text})


def _cluster(draw: random.Random) -> documents.Raw:
    spec: documents.Raw = {"nfd": {"enabled": draw.random() < 0.3, "nodefeaturerules": True}}
    if draw.random() < 0.4:
        spec["gitops"] = {"engine": draw.choice(("argocd", "flux"))}
    return spec


def _policies(draw: random.Random, count: int, scene: documents.Scene) -> Iterator[documents.Raw]:
    for number, term in enumerate(documents.leaves(draw, count)[:count]):
        spec = documents.spec(draw, scene) | {"nodeSelector": documents.selector(draw, term)}
        yield documents.document("KAEPolicy", f"tls-{number:02}", spec)
    if draw.random() < 0.3:
        yield documents.document("KAEPolicy", "others", documents.spec(draw, scene) | {"default": True})


def _put(draw: random.Random, folder: Path, found: list[documents.Raw]) -> None:
    """Write documents to files of YAML and JSON, some of them together."""
    while found:
        count = draw.choice((1, 1, 3))
        taken, found = found[:count], found[count:]
        name = taken[0]["metadata"]["name"]
        if len(taken) == 1 and draw.random() < 0.3:
            project.write(folder, {f"policies/{name}.json": json.dumps(taken[0], indent=2)})
        else:
            project.write(folder, {f"policies/{name}.yaml": yaml.safe_dump_all(taken)})


def _convert(seed: int, folder: Path) -> None:
    """Make some of the inventories canonical, and some of them YAML."""
    draw = random.Random(seed)  # noqa: S311 - the same ones again
    for path in sorted(folder.glob("inventory/*.json")):
        way = draw.choice(("raw", "canonical", "yaml"))
        try:
            data = json.loads(path.read_text())
            inventory = reduction.of_kubernetes(snapshot.ClusterName(path.stem), path.name, data["items"])
        except (ValueError, KeyError, TypeError):
            continue  # An act of people.
        if way == "canonical":
            path.write_text(canonical_form.text(inventory))
        elif way == "yaml" and not path.with_suffix(".yaml").exists():
            path.rename(path.with_suffix(".yaml")).write_text(yaml.safe_dump(data))


def _some_cluster(draw: random.Random, folder: Path) -> str:
    return draw.choice([*(path.stem for path in sorted(folder.glob("inventory/*"))), "east"])


def _policy(name: str, spec: Mapping[str, Any]) -> dict[str, str]:
    selector = {"nodeSelector": {"matchLabels": {"pool": f"own-{name}"}}, "driver": {"version": "2.2.0"}}
    return {f"policies/{name}.yaml": yaml.safe_dump(documents.document("KAEPolicy", name, {**selector, **spec}))}


def _block(draw: random.Random, folder: Path) -> None:
    """Put a file where the compiler wants to write its own."""
    output = folder / "output" / _some_cluster(draw, folder)
    (output / "index.json").unlink(missing_ok=True)
    project.write(output, {"kustomization.yaml": "mine: true\n"})


def _interrupt(draw: random.Random, folder: Path) -> bool:
    """Leave an output as a killed compile leaves it."""
    index = folder / "output" / _some_cluster(draw, folder) / "index.json"
    if not index.exists():
        return False
    data = json.loads(index.read_text())
    index.write_text(json.dumps({**data, "complete": False}))
    return True


_ACTS: Mapping[str, Act] = {
    **edits.MISTAKES,
    **{name: edits.HARMLESS[name] for name in ("change a version", "add a policy", "add a wave")},
    "break an inventory": lambda draw, folder: project.write(
        folder, {f"inventory/{_some_cluster(draw, folder)}.json": "{"}
    ),
    "mistype a field": lambda _, folder: project.write(folder, _policy("wrong", {"drivr": {}})),
    "name an unknown cluster": lambda _, folder: project.write(folder, _policy("far", {"clusters": ["nowhere-1"]})),
    "match nothing in a cluster": lambda draw, folder: project.write(
        folder, _policy("idle", {"clusters": [_some_cluster(draw, folder)]})
    ),
    "empty an inventory": lambda draw, folder: project.write(
        folder, {f"inventory/{_some_cluster(draw, folder)}.json": ""}
    ),
    "have two inventories": lambda draw, folder: project.write(
        folder, {f"inventory/{_some_cluster(draw, folder)}.yml": "apiVersion: v1\nkind: List\nitems: []\n"}
    ),
    "put a file in the way": _block,
    "put files beside": lambda draw, folder: project.write(
        folder, {f"output/{_some_cluster(draw, folder)}/notes.md": "mine\n", "output/stranger/notes.md": "mine\n"}
    ),
    "put a file for engines": lambda _, folder: project.write(folder, {"output/kustomization.yaml": "resources: []\n"}),
    "interrupt a compile": _interrupt,
}
