"""What the stand-in API server has, and what it answers to a GET: as the real one does, pages and selectors too."""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email import message
from typing import Any
from urllib import parse

Answer = tuple[int, Any]

KINDS: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "v1": {
        "ConfigMap": ("configmaps", True),
        "Event": ("events", True),
        "Namespace": ("namespaces", False),
        "Node": ("nodes", False),
        "Pod": ("pods", True),
        "ServiceAccount": ("serviceaccounts", True),
    },
    "admissionregistration.k8s.io/v1": {
        "ValidatingAdmissionPolicy": ("validatingadmissionpolicies", False),
        "ValidatingAdmissionPolicyBinding": ("validatingadmissionpolicybindings", False),
    },
    "apiextensions.k8s.io/v1": {"CustomResourceDefinition": ("customresourcedefinitions", False)},
    "apps/v1": {
        "ControllerRevision": ("controllerrevisions", True),
        "DaemonSet": ("daemonsets", True),
        "Deployment": ("deployments", True),
    },
    "coordination.k8s.io/v1": {"Lease": ("leases", True)},
    "nfd.k8s-sigs.io/v1alpha1": {"NodeFeatureRule": ("nodefeaturerules", False)},
    "rbac.authorization.k8s.io/v1": {
        "ClusterRole": ("clusterroles", False),
        "ClusterRoleBinding": ("clusterrolebindings", False),
        "Role": ("roles", True),
        "RoleBinding": ("rolebindings", True),
    },
}
"""Plural, and whether it is namespaced, of every kind that it knows."""

_PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))(?:/(?P<rest>.*))?")
_PART = re.compile(r"(?P<key>[^ ,]+) in \((?P<values>[^)]*)\)|(?P<name>[^ ,=]+)=(?P<value>[^,]*)")
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired", 429: "TooManyRequests"}


@dataclass(kw_only=True)
class State:
    """What there is, and what goes wrong."""

    objects: dict[tuple[str, str, str, str], dict[str, Any]] = field(default_factory=dict)
    """By apiVersion, kind, namespace and name."""
    events: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    """What happened to nodes: the version, the type, and the node's metadata."""
    version: int = 100
    """The resourceVersion that was given last."""
    compacted: int = 0
    """What is older is forgotten."""
    token: str = ""
    """The only one that is known; empty: everybody is."""
    forbidden: set[str] = field(default_factory=set)
    """What nobody may do, such as "list nodes"."""
    answers: dict[str, list[tuple[int, str, dict[str, str]]]] = field(default_factory=dict)
    """By path, what is answered once each, before anything else: a status, a text and headers."""
    unknown: set[str] = field(default_factory=set)
    """Groups with their versions that it does not know, although `KINDS` has them."""
    requests: list[str] = field(default_factory=list)
    """Method and path of everything that was asked, with its query."""
    when_asked: Callable[[str], None] | None = None
    """Told the path of everything that is asked, before it is answered."""
    deaf: bool = False
    """It never answers."""
    cut: bool = False
    """Watches break off in the middle of the next event."""
    condition: threading.Condition = field(default_factory=threading.Condition)


def answered(state: State, path: str, query: Mapping[str, str], headers: message.Message) -> Answer:
    """What is answered to a GET of this path."""
    if state.token and headers.get("Authorization", "").lower() != f"bearer {state.token}".lower():
        return _status(401, "Unauthorized")
    match = _PATH.fullmatch(path)
    api_version = (match["core"] or match["group"]) if match else ""
    if match is None or api_version not in KINDS or api_version in state.unknown:
        return 404, "404 page not found\n"
    if not match["rest"]:
        found = [{"kind": k, "name": n, "namespaced": s} for k, (n, s) in KINDS[api_version].items()]
        return 200, {
            "kind": "APIResourceList",
            "resources": [*found, {"kind": "Scale", "name": "x/y", "namespaced": True}],
        }
    parts = [parse.unquote(part) for part in match["rest"].split("/")]
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 2 else ""
    plural, *name = parts[2:] if namespace else parts
    kind = next(kind for kind, (known, _) in KINDS[api_version].items() if known == plural)
    verb = "get" if name else "watch" if query.get("watch") == "true" else "list"
    if f"{verb} {plural}" in state.forbidden:
        group = api_version.rpartition("/")[0]
        said = f'{plural} is forbidden: User "somebody" cannot {verb} resource "{plural}" in API group "{group}"'
        return _status(403, said)
    if verb == "get":
        item = state.objects.get((api_version, kind, namespace, name[0]))
        return (200, item) if item else _status(404, f'{plural} "{name[0]}" not found')
    if verb == "watch":
        if int(query["resourceVersion"]) < state.compacted:
            return _status(410, "too old resource version")
        return 200, None
    chosen = [
        item
        for key, item in sorted(state.objects.items())
        if key[:2] == (api_version, kind) and namespace in ("", key[2]) and _matches(item, query)
    ]
    return _listed(state, chosen, query, as_metadata="PartialObjectMetadataList" in headers.get("Accept", ""))


def _listed(state: State, items: list[dict[str, Any]], query: Mapping[str, str], *, as_metadata: bool) -> Answer:
    start, version = 0, state.version
    if "continue" in query:
        start, version = map(int, query["continue"].split("@"))
        if version < state.compacted:
            return _status(410, "The provided continue parameter is too old")
    end = start + int(query.get("limit") or len(items) or 1)
    metadata = {"resourceVersion": str(version)} | ({"continue": f"{end}@{version}"} if end < len(items) else {})
    shown = [metadata_of(item) if as_metadata else item for item in items[start:end]]
    return 200, {"kind": "List", "metadata": metadata, "items": shown}


def _matches(item: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    labels = item["metadata"].get("labels") or {}
    chosen = all(
        labels.get(part["key"] or part["name"]) in (part["values"] or part["value"]).replace(" ", "").split(",")
        for part in _PART.finditer(query.get("labelSelector", ""))
    )
    fields = ([*part["name"].split("."), part["value"]] for part in _PART.finditer(query.get("fieldSelector", "")))
    return chosen and all(_field(item, names) == value for *names, value in fields)


def _field(item: Any, names: list[str]) -> Any:
    for name in names:
        item = item.get(name, {})
    return item


def metadata_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing of an object but its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def versioned(item: Mapping[str, Any], version: int) -> dict[str, Any]:
    """The metadata as it was at a version."""
    return {**item["metadata"], "resourceVersion": str(version)}


def _status(code: int, message: str) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
    return code, body | {"reason": _REASONS[code], "code": code}


def key_of(item: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """By what an object is told apart."""
    metadata = item["metadata"]
    return item["apiVersion"], item["kind"], metadata.get("namespace", ""), metadata["name"]
