"""Who writes the bytes of two outputs, read off their DaemonSets: it shares no code with the compiler."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Raw = Mapping[str, Any]

CODES = {"registry-changed", "repository-changed", "signatures-off", "network-forced", "privilege-gained"}
"""The codes of these risks."""

_CONFIG = "device.openfuyao.com/config"
_POLICY = "device.openfuyao.com/policy"
_OWN = "the node's own"


@dataclass
class Writers:
    """Who writes what runs as root on nodes, by DaemonSet."""

    images: dict[tuple[str, str], str] = field(default_factory=dict)
    """The repository of each container that is root."""
    packages: dict[str, set[str]] = field(default_factory=dict)
    unchecked: set[str] = field(default_factory=set)
    forced: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)
    """What the pods of others get, by recipe."""
    policies: dict[str, str] = field(default_factory=dict)


def read(daemon_sets: Iterable[Raw]) -> Writers:
    """Return the writers of the programs of nodes."""
    found = Writers()
    for item in daemon_sets:
        name, template = item["metadata"]["name"], item["spec"]["template"]
        policy = template["metadata"]["labels"].get(_POLICY)
        if policy is None:  # NFD's
            continue
        found.policies[name] = policy
        pod = template["spec"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            users = [(each.get("securityContext") or {}).get("runAsUser") for each in (container, pod)]
            if next((user for user in users if user is not None), 0) == 0:
                found.images[name, container["name"]] = _repository(container["image"])
        config = json.loads(template["metadata"]["annotations"][_CONFIG])
        for part in config.get("source", {}).values():
            if "repositories" in part or "names" in part:
                found.packages[name] = set(part.get("repositories") or [_OWN])
            found.unchecked |= {name} if part.get("gpgCheck") is False else set()
        if "build" in config.get("source", {}):
            found.packages[name] = set(config["source"]["build"].get("repositories") or [_OWN])
        found.forced |= {name} if config.get("networkForce") else set()
        recipe = name.partition("-device-plugin")[0]
        found.pods.update(f"{recipe}: {what}" for what in _in_pods(config.get("resources", ())))
    return found


def _repository(image: str) -> str:
    """Return what is before the tag or the digest."""
    head, _, last = image.partition("@")[0].rpartition("/")
    return f"{head}/{last.partition(':')[0]}"


def _in_pods(resources: Iterable[Any]) -> Iterator[str]:
    for resource in resources:
        if isinstance(resource, dict):
            inject = resource.get("inject", {})
            yield from (f"node {node['path']}" for node in inject.get("nodes", ()))
            yield from (f"mount {one['path']} {one.get('readOnly', True)}" for one in inject.get("mounts", ()))
            yield from (f"variable {name}" for name in inject.get("env", {}))
            yield from (f"preload {path}" for path in inject.get("preload", ()))
            yield from (f"file {file['as']} {file['text']}" for file in inject.get("files", ()))


def expected(before: Writers, after: Writers) -> set[tuple[frozenset[str], str | None]]:
    """Return for each policy, or None, the codes of which one must be told."""
    images, packages = frozenset({"registry-changed", "repository-changed"}), frozenset({"repository-changed"})
    found: set[tuple[frozenset[str], str | None]] = set()
    known = set(before.images.values())
    for (name, container), repository in after.images.items():
        was = before.images.get((name, container))
        if was != repository if was is not None else repository not in known:
            found.add((images, after.policies[name]))
    for name, urls in after.packages.items():
        old = before.packages.get(name, set())
        if urls - old - {url.replace("http:", "https:") for url in old}:
            found.add((packages, after.policies[name]))
    for code, new in (
        ("signatures-off", after.unchecked - before.unchecked),
        ("network-forced", after.forced - before.forced),
    ):
        found |= {(frozenset({code}), after.policies[name]) for name in new}
    if after.pods - before.pods:
        found.add((frozenset({"privilege-gained"}), None))
    return found
