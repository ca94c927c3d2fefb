"""The privileges that the programs of recipes have, a line each, read from the rendered objects alone.

The lines are the content of privileges.txt, and what `recipes.refuse` of a KAECluster refuses.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compiler import names
from compiler.changes import objects

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Privilege:
    """A privilege of a program."""

    program: str
    """app.kubernetes.io/name of its pods, such as onload-driver."""
    text: str

    def __str__(self) -> str:
        return f"{self.program}: {self.text}"

    def is_refused(self, refusal: str) -> bool:
        """Return whether a line or shell glob matches the privilege, with or without its program."""
        return names.glob_matches(refusal, self.text) or names.glob_matches(refusal, str(self))


def of(workloads: Iterable[Object], every: Iterable[Object]) -> tuple[Privilege, ...]:
    """Return the privileges of workloads, sorted; `every` object of the cluster tells what their accounts may do."""
    every, found = tuple(every), set[Privilege]()
    for workload in workloads:
        template = objects.pod_template(workload) or {}
        program, spec = template["metadata"]["labels"][names.APP_LABEL], template["spec"]
        texts = (*_of_pod(spec), *_of_account(spec.get("serviceAccountName", "default"), every))
        found.update(Privilege(program=program, text=text) for text in texts)
    return tuple(sorted(found))


def _of_pod(spec: Object) -> Iterator[str]:
    yield from (name for name in ("hostPID", "hostIPC", "hostNetwork") if spec.get(name))
    for container in objects.containers(spec):
        settings = container.get("securityContext") or {}
        if settings.get("privileged"):
            yield f"privileged: {container['name']}"
        yield from (f"capability: {added}" for added in settings.get("capabilities", {}).get("add", ()))
        yield from (f"hostPort: {port['hostPort']}" for port in container.get("ports", ()) if "hostPort" in port)
    projected = (
        source for volume in spec.get("volumes", ()) for source in volume.get("projected", {}).get("sources", ())
    )
    if spec.get("automountServiceAccountToken", True) or any("serviceAccountToken" in source for source in projected):
        yield "token"
    for volume in spec.get("volumes", ()):
        if "hostPath" in volume:
            yield f"hostPath: {volume['hostPath']['path']}{' rw' if objects.is_written(spec, volume) else ''}"


def _of_account(account: str, every: Iterable[Object]) -> Iterator[str]:
    """Yield the rights of a ServiceAccount; of a role that is not among the objects, such as a platform's, its name."""
    roles = {(item["kind"], item["metadata"]["name"]): item for item in every if item["kind"].endswith("Role")}
    for binding in every:
        if not binding["kind"].endswith("RoleBinding"):
            continue
        if any((one["kind"], one["name"]) == ("ServiceAccount", account) for one in binding.get("subjects") or ()):
            verb = "cluster-rbac" if binding["kind"] == "ClusterRoleBinding" else "rbac"
            role = roles.get((binding["roleRef"]["kind"], binding["roleRef"]["name"]))
            yield from (
                [f"{verb}: {right}" for right in _rights(role)] if role else [f"role: {binding['roleRef']['name']}"]
            )


def _rights(role: Object) -> Iterator[str]:
    """Yield GROUP/RESOURCE VERBS for each resource of each rule; the group of Kubernetes itself is empty."""
    for rule in role.get("rules") or ():
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                yield f"{group}/{resource} {','.join(sorted(rule['verbs']))}"
        yield from (f"{url} {','.join(sorted(rule['verbs']))}" for url in rule.get("nonResourceURLs", ()))
