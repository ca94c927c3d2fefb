"""Objects to files: the tree below output/<cluster>/, apart from its index."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compiler.formats import canonical

COMPONENTS = (
    *("namespace", "crds", "nfd", "node-feature-rule", "guard"),
    *("driver", "device-plugin", "watcher", "monitoring"),
)
"""Components in the order in which kustomize lists them; a cluster has only those that it needs."""

Objects = Iterable[tuple[str, Mapping[str, Any]]]
"""Objects with the component that each belongs to."""


def files(objects: Objects, bootstrap: Objects) -> tuple[tuple[str, str], ...]:
    """Every file of a cluster: path below output/<cluster>/ and text, sorted by path."""
    found: dict[str, str] = {}
    images: set[str] = set()
    listed: list[tuple[int, str]] = []
    for component, data in objects:
        path = object_path(component, data)
        if path in found:
            raise ValueError(f"two objects of one cluster are called {path}")
        found[path] = canonical.dump_yaml(data)
        listed.append((COMPONENTS.index(component), path))
        images.update(_images(data))
    for component, data in bootstrap:
        found[object_path(component, data)] = canonical.dump_yaml(data)
    found["kustomization.yaml"] = canonical.dump_yaml(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [path for _, path in sorted(listed)],
        }
    )
    found["images.txt"] = "".join(f"{image}\n" for image in sorted(images))
    return tuple(sorted(found.items()))


def object_path(component: str, data: Mapping[str, Any]) -> str:
    """Where an object's file stands: <component>/<kind>-<name>.yaml."""
    return f"{component}/{data['kind'].lower()}-{data['metadata']['name']}.yaml"


def _images(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key == "image" and isinstance(value, str):
                yield value
            else:
                yield from _images(value)
    elif isinstance(data, list):
        for value in data:
            yield from _images(value)
