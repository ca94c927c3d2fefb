"""The objects that the compiler wrote for a cluster, in an order in which they can be made."""

import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from compiler import API_VERSION
from tests import in_process, project
from tests.cluster.local import programs
from tests.golden import trees

_FIRST = ("Namespace", "CustomResourceDefinition")
ROOT = trees.ROOT
NAMESPACE = "kae-operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    component: str
    data: Mapping[str, Any]
    text: str

    @property
    def is_bootstrap(self) -> bool:
        """Return whether the object points a GitOps engine at the others."""
        return self.component == "bootstrap"

    @property
    def kind(self) -> str:
        return str(self.data["kind"])

    def __str__(self) -> str:
        return f"{self.kind} {self.data['metadata']['name']}"


def document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def cluster(**fields: Any) -> dict[str, Any]:
    """Return the KAECluster `test`, whose nodes are labelled by hand, with further fields of its spec."""
    return document("KAECluster", "test", {"kubernetesVersion": "1.36", "nfd": {"enabled": False}, **fields})


def compiled(root: Path, documents: Mapping[str, str | Mapping[str, Any]], *options: str) -> Path:
    """Write documents by their paths in a project, compile it, and return its folder."""
    project.write(root, {path: item if isinstance(item, str) else json.dumps(item) for path, item in documents.items()})
    answer = in_process.kae(root, "compile", *options)
    assert answer.code == 0, answer.err
    return root


def of(tree: Path) -> Sequence[Manifest]:
    """Return every object in a folder of a cluster, namespaces and definitions first."""
    return parsed(trees.read(tree))


def parsed(files: trees.Files) -> Sequence[Manifest]:
    paths = sorted(fnmatch.filter(files, "*/*.yaml"))
    return sorted((_manifest(path, files[path]) for path in paths), key=_rank)


def definitions_of_nfd() -> Sequence[Manifest]:
    return [item for item in of(ROOT / "output" / "lab") if item.component == "crds"]


def definitions_of_engines() -> list[tuple[Any, str]]:
    """Return the definitions of the kinds of others, with their texts: Argo CD's, Flux's, the Prometheus Operator's."""
    texts = [(programs.folder() / name).read_text() for engine in programs.ENGINES for name in engine.files]
    return [(yaml.load(text, yaml.CSafeLoader), text) for text in texts]


def namespaces(manifests: Sequence[Manifest]) -> frozenset[str]:
    return frozenset(item.data["metadata"]["namespace"] for item in manifests if "namespace" in item.data["metadata"])


def differences(rendered: Any, live: Any, path: str = "") -> Iterator[str]:
    """Yield where a live object differs, but for keys that the API server adds; a list is compared as a whole."""
    if isinstance(rendered, Mapping) and isinstance(live, Mapping):
        for key, value in rendered.items():
            yield from differences(value, live.get(key), f"{path}.{key}")
    elif isinstance(rendered, list) and isinstance(live, list) and len(rendered) == len(live):
        for number, (value, other) in enumerate(zip(rendered, live, strict=True)):
            yield from differences(value, other, f"{path}[{number}]")
    elif (rendered, type(rendered)) != (live, type(live)):
        yield f"{path}: {rendered!r} was rendered, and {live!r} is there"


def _manifest(path: str, text: str) -> Manifest:
    return Manifest(component=path.partition("/")[0], data=yaml.load(text, yaml.CSafeLoader), text=text)


def _rank(item: Manifest) -> int:
    return _FIRST.index(item.kind) if item.kind in _FIRST else len(_FIRST)
