"""The objects of the stand-in API server, and its answers: gets, lists with pages and selectors, writes, evictions."""

import copy
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
    "resource.k8s.io/v1": {"DeviceClass": ("deviceclasses", False), "ResourceSlice": ("resourceslices", False)},
    "rbac.authorization.k8s.io/v1": {
        "ClusterRole": ("clusterroles", False),
        "ClusterRoleBinding": ("clusterrolebindings", False),
        "Role": ("roles", True),
        "RoleBinding": ("rolebindings", True),
    },
}
"""The plural and the namespaced flag of every kind that the server knows."""

_PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))(?:/(?P<rest>.*))?")
_PART = re.compile(r"(?P<key>[^ ,]+) in \((?P<values>[^)]*)\)|(?P<name>[^ ,=]+)=(?P<value>[^,]*)")
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
}


@dataclass(kw_only=True)
class State:
    """The objects, and the failures that a test asks for; a test may change both while the server runs."""

    objects: dict[tuple[str, str, str, str], dict[str, Any]] = field(default_factory=dict)
    """By apiVersion, kind, namespace and name."""
    events: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    """Events of nodes: the version, the type, and the node's metadata."""
    version: int = 100
    """The last resourceVersion."""
    compacted: int = 0
    """Older versions are no longer available."""
    token: str = ""
    """The only accepted token; empty: every one is."""
    forbidden: set[str] = field(default_factory=set)
    """Verbs with plurals, such as "list nodes", and objects, such as "pods/default/a", that are answered with 403."""
    answers: dict[str, list[tuple[int, str, dict[str, str]]]] = field(default_factory=dict)
    """Answers by path, each given once and before any other: a status, a text and headers."""
    broken: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    """Answers to every request for an object, such as "leases/default/a"."""
    budgets: dict[str, str] = field(default_factory=dict)
    """The disruption budget that forbids the eviction of a pod, by namespace/name."""
    evicted: list[str] = field(default_factory=list)
    when_evicted: Callable[[str], None] | None = None
    """Called with the namespace/name of each evicted pod."""
    deleted: list[str] = field(default_factory=list)
    ending: set[str] = field(default_factory=set)
    """Deleted pods that stay, as their containers do not end, by namespace/name."""
    when_deleted: Callable[[str], None] | None = None
    """Called with the namespace/name of each deleted pod, after it has gone."""
    unknown: set[str] = field(default_factory=set)
    """The apiVersions of `KINDS` that this server does not have."""
    requests: list[str] = field(default_factory=list)
    """Method, path and query of every request."""
    when_asked: Callable[[str], None] | None = None
    """Called with the method of each request, before it is carried out."""
    deaf: bool = False
    """Requests are carried out and never answered."""
    garbled: str = ""
    """A text in place of every answer, as from a proxy."""
    cut_events: int = 0
    """The number of events in whose middle their watches end."""
    hung: bool = False
    """Watches send nothing more, and do not end."""
    late_410: bool = False
    """Watches of a version that is gone begin, and end with an ERROR event."""
    second_s: float = 1
    """The length of a second by which clients limit their watches."""
    bookmark_s: float = 0
    """The pause after which an idle watch sends a bookmark; 0: none."""
    condition: threading.Condition = field(default_factory=threading.Condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as the handler received it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: message.Message
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The resource of a request."""

    api_version: str
    kind: str
    plural: str
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.api_version, self.kind, self.namespace, self.name


def answered(state: State, request: Request) -> Answer:
    """Carry out a request, and return the status and the body of its answer; a watch has none."""
    if state.token and request.headers.get("Authorization", "").lower() != f"bearer {state.token}".lower():
        return refusal(401, "Unauthorized")
    match = _PATH.fullmatch(request.path)
    api_version = (match["core"] or match["group"]) if match else ""
    if match is None or api_version not in KINDS or api_version in state.unknown:
        return 404, "404 page not found\n"
    if not match["rest"]:
        kinds = [{"kind": k, "name": n, "namespaced": s} for k, (n, s) in KINDS[api_version].items()]
        scale = {"kind": "Scale", "name": "x/y", "namespaced": True}
        return 200, {"kind": "APIResourceList", "resources": [*kinds, scale]}
    target = _target(api_version, match["rest"], request.body)
    named = f"{target.plural}/{target.namespace}/{target.name}"
    if named in state.broken:
        return state.broken[named]
    if named in state.forbidden:
        return refusal(403, f'{target.plural} "{target.name}" is forbidden: User "kae-driver" cannot do that')
    if target.subresource == "eviction":
        return _evict(state, target, request.body)
    if request.method == "DELETE":
        return _delete(state, target, request.body)
    if request.method != "GET":
        return _write(state, target, request)
    return _read(state, target, request)


def _target(api_version: str, rest: str, body: Mapping[str, Any]) -> _Target:
    parts = [parse.unquote(part) for part in rest.split("/")]
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 2 else ""
    plural, name, subresource, *_ = [*(parts[2:] if namespace else parts), "", ""]
    return _Target(
        api_version=api_version,
        kind=next(kind for kind, (known, _) in KINDS[api_version].items() if known == plural),
        plural=plural,
        namespace=namespace,
        name=name or (body["metadata"]["name"] if body else ""),
        subresource=subresource,
    )


def _read(state: State, target: _Target, request: Request) -> Answer:
    query, plural = request.query, target.plural
    verb = "get" if target.name else "watch" if query.get("watch") == "true" else "list"
    if f"{verb} {plural}" in state.forbidden:
        group = target.api_version.rpartition("/")[0]
        said = f'{plural} is forbidden: User "somebody" cannot {verb} resource "{plural}" in API group "{group}"'
        return refusal(403, said)
    if verb == "get":
        item = state.objects.get(target.key)
        return (200, item) if item else refusal(404, f'{plural} "{target.name}" not found')
    if verb == "watch":
        if int(query["resourceVersion"]) < state.compacted and not state.late_410:
            return refusal(410, "too old resource version")
        return 200, None
    chosen = [
        item
        for key, item in sorted(state.objects.items())
        if key[:2] == target.key[:2] and target.namespace in ("", key[2]) and _matches(item, query)
    ]
    as_metadata = "PartialObjectMetadataList" in request.headers.get("Accept", "")
    return _listed(state, chosen, query, as_metadata=as_metadata)


def _write(state: State, target: _Target, request: Request) -> Answer:
    known, metadata = state.objects.get(target.key), request.body["metadata"]
    if request.method == "POST" and known is not None:
        return refusal(409, f'{target.plural} "{target.name}" already exists', reason="AlreadyExists")
    if request.method == "PUT":
        if known is None:
            return refusal(404, f'{target.plural} "{target.name}" not found')
        if metadata.get("resourceVersion", "") not in ("", known["metadata"]["resourceVersion"]):
            said = "the object has been modified; please apply your changes to the latest version and try again"
            return refusal(409, f'Operation cannot be fulfilled on {target.plural} "{target.name}": {said}')
    own = {"namespace": target.namespace, "uid": f"uid-of-{target.name}"}
    return (200 if known else 201), put(state, request.body | {"metadata": metadata | own})


def _evict(state: State, target: _Target, body: Mapping[str, Any]) -> Answer:
    key = f"{target.namespace}/{target.name}"
    if (body["apiVersion"], body["kind"], body["metadata"]["name"]) != ("policy/v1", "Eviction", target.name):
        return refusal(400, f"this is no eviction of {target.name}")
    if target.key not in state.objects:
        return refusal(404, f'pods "{target.name}" not found')
    wanted = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
    uid = state.objects[target.key]["metadata"].get("uid", "")
    if wanted not in (None, uid):
        # As addConditionAndDeletePod of pkg/registry/core/pod/storage/eviction.go.
        said = f"the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might"
        return refusal(409, f'Operation cannot be fulfilled on Pod "{target.name}": {said} have been deleted')
    if key in state.budgets:
        said = f"The disruption budget {state.budgets[key]} needs 2 healthy pods and has 2 currently"
        causes = [{"reason": "DisruptionBudget", "message": said}]
        code, status = refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        return code, status | {"details": {"causes": causes}}
    state.evicted.append(key)
    if state.when_evicted is not None:
        state.when_evicted(key)
    return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}


def _delete(state: State, target: _Target, body: Mapping[str, Any]) -> Answer:
    key, known = f"{target.namespace}/{target.name}", state.objects.get(target.key)
    if f"delete {target.plural}" in state.forbidden:
        return refusal(403, f'{target.plural} "{target.name}" is forbidden: User "kae-driver" cannot do that')
    if known is None:
        return refusal(404, f'{target.plural} "{target.name}" not found')
    wanted, uid = body.get("preconditions", {}).get("uid"), known["metadata"].get("uid", "")
    if wanted not in (None, uid):
        # As Preconditions.Check of apiserver/pkg/storage/interfaces.go.
        said = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
        return refusal(409, f'Operation cannot be fulfilled on {target.plural} "{target.name}": {said}')
    state.deleted.append(key)
    if key not in state.ending:
        del state.objects[target.key]
    if state.when_deleted is not None:
        state.when_deleted(key)
    return 200, known


def put(state: State, item: Mapping[str, Any]) -> dict[str, Any]:
    """Create or replace an object, and return it with its new resourceVersion."""
    made = copy.deepcopy(dict(item))
    known = state.objects.get(key_of(made))
    state.objects[key_of(made)] = made
    happened(state, "MODIFIED" if known else "ADDED", made)
    return made


def happened(state: State, kind: str, item: dict[str, Any]) -> None:
    """Give an object the next resourceVersion, and record the event of a node."""
    state.version += 1
    item["metadata"]["resourceVersion"] = str(state.version)
    if item["kind"] == "Node":
        state.events.append((state.version, kind, copy.deepcopy(metadata_of(item))))
    state.condition.notify_all()


def _listed(state: State, items: list[dict[str, Any]], query: Mapping[str, str], *, as_metadata: bool) -> Answer:
    start, version = 0, state.version
    if "continue" in query:
        start, version = map(int, query["continue"].split("@"))
        if version < state.compacted:
            return refusal(410, "The provided continue parameter is too old")
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
    """Return an object reduced to its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def versioned(item: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return the metadata with a resourceVersion."""
    return {**item["metadata"], "resourceVersion": str(version)}


def refusal(code: int, message: str, reason: str = "") -> Answer:
    """Return the status and the Status object of a refusal."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
    return code, body | {"reason": reason or _REASONS.get(code, "InternalError"), "code": code}


def key_of(item: Mapping[str, Any]) -> tuple[str, str, str, str]:
    metadata = item["metadata"]
    return item["apiVersion"], item["kind"], metadata.get("namespace", ""), metadata["name"]
