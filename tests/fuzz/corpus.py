"""The documents that are mutated: the example fleet, the golden projects and a policy with every sort of pool.

Each document stands beside the few that it needs.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks import fleets

ROOT = Path(__file__).resolve().parents[2]
_NODES = 4
_LARGEST = 32_000  # bytes of a document that is still mutated: what is larger tests the same, only slower

_ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Seed:
    """A project that compiles, and the one of its files that is mutated."""

    name: str
    files: Mapping[str, bytes]
    mutated: str

    def data(self) -> list[Any]:
        """The documents of the file, made anew at each call."""
        documents = list(yaml.load_all(self.files[self.mutated], Loader=yaml.CSafeLoader))
        return [document for document in documents if document is not None]


@functools.cache
def seeds() -> tuple[Seed, ...]:
    """Every document with its project, in a fixed order."""
    return tuple(sorted((*_fleet(), *_raw(), *_pools(), *_golden()), key=lambda seed: seed.name))


def _fleet() -> Iterator[Seed]:
    """The example fleet, a cluster and two policies at a time."""
    clusters = {"east": ("tls", "storage"), "west": ("vm", "tls"), "lab": ("lab",)}
    for cluster, policies in clusters.items():
        names = [f"policies/clusters/{cluster}.yaml", *(f"policies/{name}.yaml" for name in policies)]
        files = {name: (ROOT / name).read_bytes() for name in names}
        nodes = f"inventory/{cluster}.json"
        files[nodes] = _few((ROOT / nodes).read_bytes())
        files |= _declared(*(other for other in ("east", "west") if other != cluster))
        for name in (*names, nodes):
            yield Seed(f"{cluster}/{name}", files, name)


def _declared(*clusters: str) -> dict[str, bytes]:
    """The least that declares the clusters that policies name."""
    head = "apiVersion: device.openfuyao.com/v1alpha1\nkind: KAECluster\n"
    text = "---\n".join(f"{head}metadata: {{name: {cluster}}}\n" for cluster in clusters)
    return {"policies/declared.yaml": text.encode()}


def _few(content: bytes) -> bytes:
    """An inventory with some of its nodes; what kubectl printed is left as it is."""
    data = json.loads(content)
    if data["kind"] == "List":
        return content
    nodes = data["spec"]["nodes"][-_NODES:]
    used = {node["profile"] for node in nodes}
    profiles = {key: value for key, value in data["spec"]["profiles"].items() if key in used}
    data["spec"] = {"nodes": nodes, "profiles": profiles}
    return json.dumps(data, indent=1).encode()


def _raw() -> Iterator[Seed]:
    """Nodes as kubectl prints them, as JSON and as YAML."""
    policy = {"policies/tls.yaml": (ROOT / "policies/tls.yaml").read_bytes(), **_declared("east", "west")}
    items = [_slim(node) for node in fleets.nodes(2)]
    answer = {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}
    texts = {"json": json.dumps(answer, indent=2), "yaml": yaml.dump(answer, Dumper=yaml.CSafeDumper)}
    for ending, text in texts.items():
        name = f"inventory/east.{ending}"
        yield Seed(f"raw/{name}", policy | {name: text.encode()}, name)


def _slim(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node without most of the fields that the compiler ignores."""
    status = {key: node["status"][key] for key in ("nodeInfo", "capacity")}
    labels = node["metadata"]["labels"]
    kept = {key: value for key, value in labels.items() if "cpuid" not in key}
    taint = {"key": "dedicated", "value": "tls", "effect": "NoSchedule"}
    return node | {"status": status, "spec": {"taints": [taint]}, "metadata": node["metadata"] | {"labels": kept}}


def _pools() -> Iterator[Seed]:
    """A policy with every part that decides about pools, on nodes of several kernels."""
    kernels = ("5.10.0-216.0.0.118.oe2203sp4.aarch64+", "5.10.0-60.oe2203sp1.aarch64", "6.6.0-28.0.0.34.oe2403.aarch64")
    items: list[dict[str, Any]] = []
    for node, kernel, zone in zip(fleets.nodes(_NODES), (*kernels, ""), ("lab", "1", "2", "lab"), strict=True):
        found = _slim(node)
        found["metadata"]["name"] = f"kp920-{len(items):02}"
        found["metadata"]["labels"]["zone"] = zone
        found["status"]["nodeInfo"] = node["status"]["nodeInfo"] | {"kernelVersion": kernel}
        items.append(found)
    answer = {"apiVersion": "v1", "kind": "List", "items": items}
    files = {
        "policies/pools.yaml": Path(__file__).with_name("pools.yaml").read_bytes(),
        "inventory/east.json": json.dumps(answer).encode(),
    }
    for name in files:
        yield Seed(f"pools/{name}", files | _declared("east", "west"), name)


def _golden() -> Iterator[Seed]:
    """Every golden project that is small enough."""
    for mark in sorted((ROOT / "tests/golden").glob("*/why.md")):
        top = mark.parent
        paths = [path for folder in ("policies", "recipes", "inventory") for path in sorted((top / folder).rglob("*"))]
        files = {
            path.relative_to(top).as_posix(): path.read_bytes()
            for path in paths
            if path.suffix in _ENDINGS and path.is_file()
        }
        if sum(map(len, files.values())) <= _LARGEST:
            for name in files:
                yield Seed(f"golden-{top.name}/{name}", files, name)
