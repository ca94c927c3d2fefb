"""The objects of output/<cluster>/, as it stands or as compiled, as far as they decide over nodes.

Output may have been edited by hand, or hold the marks of a merge conflict: what cannot be read as an object is left
out, and the record in index.json still says that it was there.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from compiler import names
from compiler.fleet import selectors
from compiler.formats import yaml_text
from compiler.model import base
from compiler.output import diff, index_file, tree

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSet:
    """A DaemonSet of the driver or of the device plugin, with everything that decides where its pods run."""

    workload: index_file.Workload
    image: str
    terms: tuple[selectors.Term, ...]
    tolerations: tuple[base.Toleration, ...]
    cleans_up: bool
    """True when its installers remove the driver once it is deleted (driver.enabledCleanup)."""

    @property
    def selection(self) -> tuple[object, ...]:
        """Everything that decides over the nodes that it serves."""
        return self.workload.pool, self.workload.state, self.terms, self.tolerations


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The index and the objects of a cluster."""

    index: index_file.Index
    objects: Mapping[str, Object]
    """Readable objects by path, without those of bootstrap/."""

    def policies(self, component: str) -> tuple[str, ...]:
        """Return the policies with DaemonSets of a component; a driver that is Absent does not count."""
        own = (item for item in self.index.workloads if item.component == component and item.state != "Absent")
        return tuple(sorted({item.policy for item in own}))

    def daemon_sets(self, component: str, policy: str) -> tuple[DaemonSet, ...]:
        """Return the readable DaemonSets of a policy's driver or device plugin; a driver that is Absent has none."""
        own = (
            item
            for item in self.index.workloads
            if (item.component, item.policy) == (component, policy) and item.state != "Absent"
        )
        made = (_daemon_set(item, self.objects[item.file]) for item in own if item.file in self.objects)
        return tuple(item for item in made if item is not None)

    def rule(self, name: str) -> Object | None:
        """Return the NodeFeatureRule of this name."""
        return self.objects.get(f"node-feature-rule/nodefeaturerule-{name}.yaml")

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the objects."""
        found = (data.get("metadata", {}).get("namespace") for data in self.objects.values())
        return frozenset(name for name in found if isinstance(name, str))


def earlier(seen: diff.Observed, compiled: tree.Tree, objects: Mapping[str, Object]) -> Deployed | None:
    """Return the output as it stands; None if nothing is recorded.

    A file that is equal in the `compiled` tree is not parsed: `objects` has its object by path.
    """
    if seen.recorded is None:
        return None
    index = seen.recorded
    if not index.complete:
        # The compile that was interrupted was accepted: what it has deleted by then is no removal of this one.
        index = replace(index, workloads=tuple(item for item in index.workloads if item.file in seen.files))
    texts = compiled.contents()
    found = {}
    for path in index.files:
        content = seen.files.get(path)
        if content is None or not path.endswith(".yaml") or path.startswith(f"{names.BOOTSTRAP}/"):
            continue
        data = objects.get(path) if texts.get(path) == content else _parsed(content, path)
        if isinstance(data, Mapping):
            found[path] = data
    return Deployed(index=index, objects=found)


def protector(data: Object) -> str | None:
    """Return the GitOps engine that leaves an object in the cluster when the output no longer has it."""
    annotations = data.get("metadata", {}).get("annotations") or {}
    if "Prune=false" in str(annotations.get(names.SYNC_OPTIONS, "")).split(","):
        return "argocd"
    return "flux" if annotations.get(names.FLUX_PRUNE) == "disabled" else None


def _parsed(content: bytes, path: str) -> Any:
    try:
        return yaml_text.single(content.decode(), path)
    except ValueError:
        return None


def _daemon_set(workload: index_file.Workload, data: Object) -> DaemonSet | None:
    """Return an object as a DaemonSet; None if a person has edited it to another shape."""
    try:
        pod = data["spec"]["template"]["spec"]
        config = json.loads(data["spec"]["template"]["metadata"]["annotations"][names.CONFIG])
        affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        return DaemonSet(
            workload=workload,
            image=pod["containers"][0]["image"],
            terms=tuple(_term(term["matchExpressions"]) for term in affinity["nodeSelectorTerms"]),
            tolerations=tuple(base.Toleration.model_validate(item) for item in pod.get("tolerations", ())),
            cleans_up=config.get("enabledCleanup") is True,
        )
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _term(expressions: Iterable[Mapping[str, Any]]) -> selectors.Term:
    return tuple(
        selectors.Requirement(item["key"], item["operator"], tuple(item.get("values", ()))) for item in expressions
    )
