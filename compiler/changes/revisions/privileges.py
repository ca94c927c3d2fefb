"""The privileges that an object has or gives: rights at the API server, access to a node, secrets, registries.

Facts are read from the object alone, and each is a text that means the same on both sides of a change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from compiler import wording
from compiler.changes import objects
from compiler.planning import images as image_text

Sort = Literal["rights", "node", "container", "secret", "namespace", "registry", "confinement"]
"""What a privilege is about; a confinement is the opposite of one, and whoever loses it gains."""

_ESCAPES = "may gain more privileges than its parent"
_POD_SECURITY = "pod-security.kubernetes.io/"
_NAMES = 5
"""Objects that a right names in a text."""

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Privilege:
    """A privilege as a fact."""

    sort: Sort
    text: str
    """The privilege; of a right to do something with a resource, only the resource."""
    verb: str = ""
    """What a right allows: get, list, …; empty for other privileges."""
    name: str = ""
    """The one object that a right is restricted to; empty for a right without such a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivilegeChange:
    """The privileges that an object gains and loses."""

    cluster: str
    component: str
    kind: str
    namespace: str
    """Empty for an object of the cluster."""
    name: str
    is_new: bool
    is_gone: bool
    gained: tuple[Privilege, ...]
    lost: tuple[Privilege, ...]


def changes(cluster: str, pairs: Iterable[objects.Pair]) -> tuple[PrivilegeChange, ...]:
    """Return the changed privileges of the objects that differ, in their order."""
    found = []
    for pair in pairs:
        was, now = of_object(pair.before), of_object(pair.after)
        if was != now:
            found.append(
                PrivilegeChange(
                    cluster=cluster,
                    component=pair.component,
                    kind=pair.ref.kind,
                    namespace=pair.ref.namespace,
                    name=pair.ref.name,
                    is_new=pair.before is None,
                    is_gone=pair.after is None,
                    gained=tuple(sorted(now - was)),
                    lost=tuple(sorted(was - now)),
                )
            )
    return tuple(found)


def of_object(data: Mapping[str, Any] | None) -> frozenset[Privilege]:
    """Return the privileges of an object; none for one that is not there."""
    if data is None:
        return frozenset()
    kind = data["kind"]
    template = objects.pod_template(data)
    if template is not None:
        return frozenset(_of_template(template))
    if kind in ("Role", "ClusterRole"):
        return frozenset(_of_role(data))
    if kind in ("RoleBinding", "ClusterRoleBinding"):
        return frozenset(_of_binding(data))
    if kind == "Namespace":
        return frozenset(_of_namespace(data))
    if kind == "NetworkPolicy":
        text = f"only the connections of NetworkPolicy {data['metadata']['name']} are allowed"
        return frozenset({Privilege(sort="confinement", text=text)})
    if kind == "ValidatingAdmissionPolicyBinding":
        return frozenset({Privilege(sort="confinement", text="the API server confines evictions to the own node")})
    return frozenset(_of_project(data)) if kind == "AppProject" else frozenset()


def texts(privileges: Iterable[Privilege]) -> Iterator[str]:
    """Yield privileges as texts; rights to several objects, and several rights to the same objects, are one."""
    names: dict[tuple[str, str], list[str]] = {}
    for item in privileges:
        names.setdefault((item.text, item.verb), []).extend([item.name] if item.name else [])
    verbs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (text, verb), own in names.items():
        verbs.setdefault((text, tuple(sorted(own))), []).extend([verb] if verb else [])
    for (text, on), allowed in verbs.items():
        right = f"may {wording.listed(allowed)} {text}" if allowed else text
        yield f"{right}: {wording.listed(on, most=_NAMES)}" if on else right


def images(data: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the images of a workload; none for another object."""
    template = objects.pod_template(data) if data is not None else None
    return (
        tuple(container["image"] for container in objects.containers(template["spec"])) if template is not None else ()
    )


def _of_role(data: Mapping[str, Any]) -> Iterator[Privilege]:
    where = f"in namespace {data['metadata']['namespace']}" if data["kind"] == "Role" else "in every namespace"
    for rule in data.get("rules") or ():
        for verb in rule["verbs"]:
            for url in rule.get("nonResourceURLs", ()):
                yield Privilege(sort="rights", text=url, verb=verb)
            for group in rule.get("apiGroups", ()):
                for resource in rule.get("resources", ()):
                    text = f"{resource}{f'.{group}' if group else ''} {where}"
                    for name in rule.get("resourceNames") or ("",):
                        yield Privilege(sort="rights", text=text, verb=verb, name=name)


def _of_binding(data: Mapping[str, Any]) -> Iterator[Privilege]:
    role = data["roleRef"]
    for subject in data.get("subjects") or ():
        who = f"{subject['kind']} {'/'.join(filter(None, (subject.get('namespace'), subject['name'])))}"
        yield Privilege(sort="rights", text=f"{who} has {role['kind']} {role['name']}")


def _of_namespace(data: Mapping[str, Any]) -> Iterator[Privilege]:
    labels = data["metadata"].get("labels") or {}
    for mode in ("enforce", "audit", "warn"):
        level = labels.get(_POD_SECURITY + mode)
        if level is not None:
            yield Privilege(sort="namespace", text=f"Pod Security: {mode} {level}")


def _of_project(data: Mapping[str, Any]) -> Iterator[Privilege]:
    spec = data["spec"]
    for source in spec.get("sourceRepos", ()):
        yield Privilege(sort="rights", text=f"Argo CD may apply from {source}")
    for place in spec.get("destinations", ()):
        where = place.get("server") or place.get("name")
        yield Privilege(sort="rights", text=f"Argo CD may apply to {where}, namespace {place.get('namespace')}")
    for key in ("clusterResourceWhitelist", "namespaceResourceWhitelist"):
        for kind in spec.get(key, ()):
            yield Privilege(sort="rights", text=f"Argo CD may apply {kind['kind']}.{kind['group']}".rstrip("."))


def _of_template(template: Mapping[str, Any]) -> Iterator[Privilege]:
    spec = template["spec"]
    for key, text in (
        ("hostPID", "sees the node's processes"),
        ("hostIPC", "shares the node's IPC"),
        ("hostNetwork", "shares the node's network"),
    ):
        if spec.get(key):
            yield Privilege(sort="node", text=f"{text} ({key})")
    yield from _of_volumes(spec)
    if spec.get("automountServiceAccountToken", True):
        account = spec.get("serviceAccountName", "default")
        yield Privilege(sort="secret", text=f"has the token of ServiceAccount {account}")
    annotations = template.get("metadata", {}).get("annotations") or {}
    for container in objects.containers(spec):
        yield from _of_container(container, spec.get("securityContext") or {}, annotations)
        yield Privilege(sort="registry", text=f"images from {image_text.registry(container['image'])}")


def _of_volumes(spec: Mapping[str, Any]) -> Iterator[Privilege]:
    for volume in spec.get("volumes", ()):
        if "hostPath" in volume:
            does = "reads and writes" if objects.is_written(spec, volume) else "reads"
            yield Privilege(sort="node", text=f"{does} {volume['hostPath']['path']} of the node")
        yield from _of_secrets(volume)


def _of_secrets(volume: Mapping[str, Any]) -> Iterator[Privilege]:
    sources: Sequence[Mapping[str, Any]] = (volume, *volume.get("projected", {}).get("sources", ()))
    for source in sources:
        name = source.get("secret", {}).get("secretName") or source.get("secret", {}).get("name")
        if name:
            yield Privilege(sort="secret", text=f"reads Secret {name}")
        if "serviceAccountToken" in source:
            audience = source["serviceAccountToken"].get("audience", "the API server")
            yield Privilege(sort="secret", text=f"has a token for {audience}")


def _of_container(
    container: Mapping[str, Any], of_pod: Mapping[str, Any], annotations: Mapping[str, str]
) -> Iterator[Privilege]:
    own = container.get("securityContext") or {}
    name = container["name"]
    settings = {**of_pod, **own}
    is_privileged = bool(own.get("privileged"))
    profile = annotations.get(_APPARMOR + name) or settings.get("appArmorProfile", {}).get("type")
    facts = {
        "is privileged": is_privileged,
        "runs as root": settings.get("runAsUser") == 0,
        # The kubelet allows it unless the container says otherwise.
        _ESCAPES: is_privileged or own.get("allowPrivilegeEscalation", True),
        "has no seccomp profile": settings.get("seccompProfile", {}).get("type", "Unconfined") == "Unconfined",
        "has no AppArmor profile (unconfined)": str(profile).lower() == "unconfined",
    }
    texts = [text for text, holds in facts.items() if holds]
    texts += [f"has capability {added}" for added in own.get("capabilities", {}).get("add", ())]
    texts += [f"takes port {port['hostPort']} of the node" for port in container.get("ports", ()) if "hostPort" in port]
    yield from (Privilege(sort="container", text=f"container {name} {text}") for text in texts)
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        if reference:
            yield Privilege(sort="secret", text=f"reads Secret {reference['name']}")
