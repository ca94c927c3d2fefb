"""What a live cluster says for a support bundle: versions, nodes, objects, events, logs, and the answers of programs.

Nothing that cannot be read ends the collection: each part that is missing is a sentence. Secrets are never asked for.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler import errors, names, recipes, wording
from compiler.kube import client, pods, reader
from compiler.rendering import privileges
from compiler.support import masking

_APPS = (names.DRIVER, names.DEVICE_PLUGIN, names.WATCHER, names.SMOKE, *names.NFD)
"""The app labels of the pods that the output and `kae smoke` make for KAE."""

PODS = "objects/Pod.json"
MOST_NODES = 20
LOG = pods.Bounds(size=1 << 20, time_s=30)
ANSWER = pods.Bounds(size=1 << 20, time_s=60)
_MOST_EVENTS = 5000

_Question = tuple[str, tuple[str, ...], str]
"""What a program is asked on its node: the container, the command, and the file of its answer."""
_TO_DRIVER: _Question = ("installer", ("python", "-m", "installer", "status"), "installer-status.txt")
_TO_PLUGIN: _Question = ("device-plugin", ("python", "-m", "device_plugin", "list"), "device-plugin-list.txt")

_KINDS = (
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("coordination.k8s.io/v1", "Lease"),
)
"""The objects whose state a fault shows in, beside pods; rules, rights and policies are in the difference."""


@dataclass(kw_only=True)
class Bundle:
    """The files of a bundle, and a sentence for each part that is missing or cut."""

    texts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def add(self, path: str, data: Any) -> None:
        """Add a text, or data as JSON without secrets."""
        if not isinstance(data, str):
            data = json.dumps(masking.data(data), indent=1, ensure_ascii=False) + "\n"
        self.texts[path] = data

    def lack(self, sentence: str) -> None:
        """Say that something is not there."""
        self.missing.append(masking.text(f"{sentence.rstrip('.')}."))

    def attempt(self, part: str, take: Callable[[], None]) -> errors.WorldError | None:
        """Take a part; where that fails, say why, and return the reason."""
        try:
            take()
        except errors.WorldError as error:
            self.lack(f"{part}: {error}")
            return error
        return None


class Collection:
    """The collection from one cluster into a bundle."""

    def __init__(self, cluster: reader.Cluster, namespace: str, into: Bundle, known: Iterable[recipes.Recipe]) -> None:
        """Store where to look, and the recipes whose pods may be there; nothing is asked yet."""
        known = tuple(known)
        self._questions: Mapping[str, _Question] = {
            **{recipe.driver: _TO_DRIVER for recipe in known},
            **{recipe.device_plugin: _TO_PLUGIN for recipe in known},
        }
        self._apps = tuple(dict.fromkeys((*_APPS, *self._questions)))
        self._cluster = cluster
        self._namespace = namespace
        self._bundle = into
        self._silent: set[str] = set()
        """Nodes that once did not answer in time: nothing more is asked of them."""
        self._may_run = True

    def collect(self, nodes: Sequence[str]) -> None:
        """Take everything; logs and answers of the named nodes, or else of the first ones."""
        self._bundle.attempt("nodes", self._nodes)
        for api_version, kind in _KINDS:
            self._bundle.attempt(f"objects/{kind}", functools.partial(self._objects, api_version, kind))
        found: list[Mapping[str, Any]] = []
        self._bundle.attempt("pods", lambda: found.extend(self._pods()))
        self._bundle.attempt("events", lambda: self._events([pod["metadata"]["name"] for pod in found]))
        for pod in self._chosen(found, nodes):
            self._logs(pod)
            self._answer(pod)

    def _nodes(self) -> None:
        self._bundle.add("nodes.json", list(self._cluster.snapshot(_node)))

    def _objects(self, api_version: str, kind: str) -> None:
        labels = "" if kind == "Lease" else names.RENDERED
        items = self._cluster.objects(api_version, kind, self._namespace, labels=labels)
        self._bundle.add(f"objects/{kind}.json", list(items))

    def _pods(self) -> list[Mapping[str, Any]]:
        labels = f"{names.APP_LABEL} in ({','.join(self._apps)})"
        items = sorted(
            self._cluster.objects("v1", "Pod", self._namespace, labels=labels), key=lambda pod: pod["metadata"]["name"]
        )
        self._bundle.add(PODS, items)
        return items

    def _events(self, pods_there: Sequence[str]) -> None:
        """Add the events of the pods, and of those that were replaced: their names begin as the apps' do."""
        kept = []
        for number, event in enumerate(self._cluster.objects("v1", "Event", self._namespace)):
            if number == _MOST_EVENTS:
                self._bundle.lack(f"events: only the first {_MOST_EVENTS} of namespace '{self._namespace}' were read")
                break
            name = str((event.get("involvedObject") or {}).get("name"))
            if name in pods_there or name.startswith(self._apps):
                kept.append(event)
        self._bundle.add("events.json", sorted(kept, key=_time))

    def _chosen(self, found: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the pods whose logs are read, and say which nodes are left out."""
        by_node: dict[str, list[Mapping[str, Any]]] = {}
        for pod in found:
            by_node.setdefault(pod["spec"].get("nodeName") or "", []).append(pod)
        for name in (name for name in wanted if name not in by_node):
            self._bundle.lack(f"node {name}: no pod of KAE is on it")
        order = sorted(by_node, key=lambda name: (all(map(_is_ready, by_node[name])), name))
        # A name that is wrong does not cost the logs.
        chosen = [name for name in order if name in wanted] or order[:MOST_NODES]
        if left := [name or "no node" for name in order if name not in chosen]:
            self._bundle.lack(
                f"logs and answers of {wording.nodes(left)} were not asked for; name a node by --node to have its own"
            )
        return [pod for name in chosen for pod in by_node[name]]

    def _logs(self, pod: Mapping[str, Any]) -> None:
        spec, status = pod["spec"], pod.get("status") or {}
        restarted = {
            item["name"]
            for item in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))
            if item.get("restartCount")
        }
        for item in privileges.containers(spec):
            self._log(pod, item["name"], previous=False)
            if item["name"] in restarted:
                self._log(pod, item["name"], previous=True)

    def _log(self, pod: Mapping[str, Any], container: str, *, previous: bool) -> None:
        path = _path("logs", pod["metadata"]["name"], f"{container}{'.previous' if previous else ''}.log")

        def take() -> None:
            output = self._cluster.pods.log(self._container(pod, container), LOG, previous=previous)
            self._bundle.add(path, output.text)
            if output.is_cut:
                self._bundle.lack(f"{path}: only its last {LOG.size >> 20} MiB, from a whole line on")

        self._ask(pod, path, take)

    def _answer(self, pod: Mapping[str, Any]) -> None:
        """Ask a program on its node, where the cluster lets us run commands."""
        app = pod["metadata"]["labels"].get(names.APP_LABEL, "")
        if app not in self._questions or not self._may_run:
            return
        container, command, file = self._questions[app]
        path = _path("nodes", str(pod["spec"].get("nodeName")), f"{pod['metadata']['name']}-{file}")
        if (pod.get("status") or {}).get("phase") != "Running":
            self._bundle.lack(f"{path}: its pod does not run")
            return

        def take() -> None:
            output = self._cluster.pods.run(self._container(pod, container), command, ANSWER)
            self._bundle.add(path, output.text)
            if output.is_cut or output.code:
                end = f"only the first {ANSWER.size >> 20} MiB" if output.is_cut else f"exit code {output.code}"
                self._bundle.lack(f"{path}: {end} of '{' '.join(command)}'")

        if isinstance(self._ask(pod, path, take), client.Denied):
            self._may_run = False
            self._bundle.lack(
                "nodes/: no other program was asked, as that takes the rights to get and create pods/exec"
            )

    def _ask(self, pod: Mapping[str, Any], path: str, take: Callable[[], None]) -> errors.WorldError | None:
        """Take what a node's kubelet has to answer, unless it has not answered before."""
        node = pod["spec"].get("nodeName") or ""
        if node in self._silent:
            self._bundle.lack(f"{path}: not asked for, as node {node} did not answer before")
            return None
        fault = self._bundle.attempt(path, take)
        # An API server that does not reach the kubelet says so after half a minute, in the words of Go's net.Dial.
        if isinstance(fault, client.Unreachable) or (fault is not None and "dial tcp" in str(fault)):
            self._silent.add(node)
        return fault

    def _container(self, pod: Mapping[str, Any], name: str) -> pods.Container:
        return pods.Container(namespace=self._namespace, pod=pod["metadata"]["name"], name=name)


def _path(*parts: str) -> str:
    """Return a path in the archive; no name of a cluster leads out of it, or steers a terminal that lists it."""
    return "/".join(re.sub(r"[^\w.-]|^\.+$", "_", part, flags=re.ASCII) for part in parts)


def _node(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a fault may come from: a real Node also lists hundreds of images."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    return {
        "name": metadata["name"],
        "labels": metadata.get("labels") or {},
        "taints": spec.get("taints") or [],
        "unschedulable": bool(spec.get("unschedulable")),
        **{key: status.get(key) for key in ("nodeInfo", "capacity", "allocatable", "conditions")},
    }


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions: Iterable[Mapping[str, Any]] = (pod.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _time(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
