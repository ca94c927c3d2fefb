"""One random recipe with programs: its texts, names and rights beside those of a second reading."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler import diagnostics, pipeline
from compiler.formats import decode, documents
from compiler.rendering import layout
from tests import builders
from tests.property import campaign
from tests.property.programs.made import Made

ABSENT = object()
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")


def trial(seed: int, folder: Path | None = None) -> campaign.Result:
    """Compile the recipe of a seed, and compare."""
    del folder
    made, result = Made(seed), campaign.Result(seed=seed)
    given = [
        _document(builders.raw("Recipe", made.name, made.recipe), f"recipes/{made.name}/recipe.yaml"),
        builders.document(builders.raw("KAECluster", "east", {"kubernetesVersion": "1.36"}), "policies/east.yaml"),
        *(
            builders.document(builders.raw("DevicePolicy", name, spec), f"policies/{name}.yaml")
            for name, spec in made.policies.items()
        ),
        builders.document(_nodes(made), "inventory/east.json"),
    ]
    fleet, found = pipeline.read(given, builders.judge())
    if diagnostics.has_errors(found):
        result.faults = [f"refused: {each.message} {each.notes}" for each in found if each.severity == "error"]
        return result
    planned, _ = pipeline.plan_cluster(fleet, fleet.clusters[0])
    tree, objects = pipeline.render_cluster(planned, builders.renderer())
    by_name = {(item.data["kind"], item.data["metadata"]["name"]): item.data for item in objects}
    result.faults += _listed(dict(tree.files).get("privileges.txt", ""), objects)
    for pool, name, program, values in _expected(made):
        result.counts["programs"] += 1
        data = by_name.pop(("DaemonSet", name), None)
        pod = filled(program["pod"], _scope(pool, values), "") if holds(program, values) else ABSENT
        if (data is None) != (pod is ABSENT):
            result.faults.append(f"{name} is {'not ' if data is None else ''}there")
        elif data is not None:
            result.counts["DaemonSets"] += 1
            result.faults += _compared(made, data, pod, (pool, name, program))
    others = [name for kind, name in by_name if kind == "DaemonSet" and name.startswith(f"{made.name}-")]
    result.faults += [f"{name} is there, and nothing wants it" for name in others]
    return result


def _document(data: dict[str, Any], file: str) -> documents.Document:
    """Return a document of JSON, which has null."""
    (found,), faults = decode.decode(file, json.dumps(data).encode())
    assert faults == []
    return found


def _nodes(made: Made) -> dict[str, Any]:
    nodes = [
        builders.kubernetes_node(
            f"{name}-{number}", {"feature.node.kubernetes.io/kernel-version.full": "5.10", "set": name}
        )
        for name in made.policies
        for number in (1, 2)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": nodes}


def _expected(made: Made) -> Iterator[tuple[tuple[str, str], str, dict[str, Any], dict[str, Any]]]:
    """Yield what each DaemonSet has to be: policy and pool, its name, its program and the values."""
    defaults = {name: schema["default"] for name, schema in made.properties.items() if "default" in schema}
    for policy, spec in made.policies.items():
        base = {**defaults, **spec["values"]}
        waves = spec.get("rollout", {}).get("waves", ())
        for program in made.programs:
            stem = f"{made.name}-{program['name']}-{policy}"
            if program["per"] == "pool" and waves:
                yield (policy, "canary"), f"{stem}--canary", program, {**base, **waves[0]["values"]}
                yield (policy, "rest"), f"{stem}--rest", program, base
            else:
                yield (policy, policy), stem, program, base


def _scope(pool: tuple[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{f"values.{name}": value for name, value in values.items()},
        "policy.name": pool[0],
        "pool.name": pool[1],
        "cluster.name": "east",
        "namespace": "kae-operator",
        "kubeletDir": "/var/lib/kubelet",
        "images.first": "first.example.com/v/image-first:1",
        "images.second": "second.example.com/v/image-second:1",
    }


def is_nothing(value: Any) -> bool:
    return value is ABSENT or value in ([], {})


def said(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(said, value))
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def text(template: str, scope: Mapping[str, Any], *, expanded: bool) -> Any:
    """Fill a text by a regular expression, where the compiler walks its parts."""
    names = [match[1] for match in _REFERENCE.finditer(template) if match[1] is not None]
    if any(is_nothing(scope.get(name, ABSENT)) for name in names):
        return ABSENT

    def one(match: re.Match[str]) -> str:
        if match[1] is None:
            return "${"
        value = said(scope[match[1]])
        return value.replace("$(", "$$(") if expanded else value

    return _REFERENCE.sub(one, template)


def condition(when: Any, values: Mapping[str, Any]) -> bool:
    if isinstance(when, str):
        value = values.get(when[len("${values.") : -1], ABSENT)
        return value if isinstance(value, bool) else not is_nothing(value)
    for name, wanted in when.items():
        value = values.get(name, ABSENT)
        options = wanted if isinstance(wanted, list) else [wanted]
        if is_nothing(value):
            if None not in options:
                return False
        elif not any(type(one) is type(value) and one == value for one in options):
            return False
    return True


def holds(program: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return "when" not in program or condition(program["when"], values)


def filled(data: Any, scope: Mapping[str, Any], field: str) -> Any:
    values = {name.removeprefix("values."): value for name, value in scope.items() if name.startswith("values.")}
    if isinstance(data, dict) and set(data) == {"when", "value"}:
        return filled(data["value"], scope, field) if condition(data["when"], values) else ABSENT
    if isinstance(data, dict):
        if "when" in data and not condition(data["when"], values):
            return ABSENT
        made = {key: filled(value, scope, key) for key, value in data.items() if key != "when"}
        kept = {key: value for key, value in made.items() if value is not ABSENT}
        return ABSENT if len(kept) < len(made) and (field == "env" or not kept) else kept
    if isinstance(data, list):
        items: list[Any] = []
        for one in data:
            value = filled(one, scope, field)
            items += [] if value is ABSENT else value if isinstance(value, list) and field == "args" else [value]
        return ABSENT if data and not items else items
    return text(data, scope, expanded=field in ("args", "env", "value")) if isinstance(data, str) else data


def _compared(made: Made, data: Any, pod: Any, what: tuple[tuple[str, str], str, Any]) -> Iterator[str]:
    (policy, pool), name, program = what
    template, spec = data["spec"]["template"], data["spec"]["template"]["spec"]
    for field in ("initContainers", "containers"):
        wanted, had = pod.get(field, []), spec.get(field, [])
        if [one["name"] for one in wanted] != [one["name"] for one in had]:
            yield f"{name} has other {field}"
        else:
            yield from (f"{name} {fault}" for pair in zip(wanted, had, strict=True) for fault in _contained(*pair))
    if [one["name"] for one in pod.get("volumes", ())] != [one["name"] for one in spec.get("volumes", ())]:
        yield f"{name} has other volumes"
    own = [pool] if name.endswith(f"--{pool}") else []
    labels = {"app.kubernetes.io/name": f"{made.name}-{program['name']}", "device.openfuyao.com/policy": policy}
    labels |= dict.fromkeys(["device.openfuyao.com/pool"] if own else [], pool)
    if (data["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]) != (labels, labels | {"team": policy}):
        yield f"{name} has other labels"
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    keys = {one["key"]: one.get("values") for one in term["matchExpressions"]}
    chosen = {f"openfuyao.com/{made.name}.deploy.{program['name']}": ["false"], "set": [policy]}
    if keys != chosen | ({f"openfuyao.com/{made.name}.pool.{policy}": own} if own else {}):
        yield f"{name} has another affinity: {keys}"


def _contained(wanted: Any, had: Any) -> Iterator[str]:
    for key in ("args", "volumeMounts"):
        if wanted.get(key) != had.get(key):
            yield f"has other {key}: {had.get(key)!r}, not {wanted.get(key)!r}"
    env = {each["name"]: each.get("value", "") for each in had.get("env", ())}
    if env != {each["name"]: each["value"] for each in wanted.get("env", ())}:
        yield f"has other variables: {env!r}"
    if had["image"] != f"{wanted['image']}.example.com/v/image-{wanted['image']}:1":
        yield "has another image"


def _listed(listed: str, objects: tuple[layout.Object, ...]) -> Iterator[str]:
    """Yield what privileges.txt does not list, or lists although no object has it, by a walk of its own."""
    rights: set[str] = set()
    data = [item.data for item in objects]
    for one in data:
        if one["kind"] == "DaemonSet" and "device.openfuyao.com/policy" in one["spec"]["selector"]["matchLabels"]:
            app = one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
            rights |= {f"{app}: {right}" for right in _walk(one["spec"]["template"]["spec"], data)}
    lines = set(listed.splitlines())
    yield from (f"privileges.txt does not have '{right}'" for right in sorted(rights - lines))
    yield from (f"privileges.txt has '{right}'" for right in sorted(lines - rights))


def _walk(spec: Any, every: list[Any]) -> Iterator[str]:
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    yield from (field for field in ("hostPID", "hostIPC", "hostNetwork") if spec.get(field))
    yield from _paths(spec, containers)
    for container in containers:
        security = container.get("securityContext", {})
        yield from [f"privileged: {container['name']}"] if security.get("privileged") else []
        yield from (f"capability: {added}" for added in security.get("capabilities", {}).get("add", ()))
        if not security.get("privileged") and security.get("allowPrivilegeEscalation") is not False:
            yield f"allowPrivilegeEscalation: {container['name']}"
        labels = {**spec.get("securityContext", {}), **security}.get("seLinuxOptions", {})
        yield from (f"seLinux: {key} {value}" for key, value in labels.items())
    if spec["automountServiceAccountToken"]:
        yield "token"
    roles = {(one["kind"], one["metadata"]["name"]): one for one in every if one["kind"].endswith("Role")}
    for binding in (one for one in every if one["kind"].endswith("RoleBinding")):
        if spec["serviceAccountName"] in [subject["name"] for subject in binding["subjects"]]:
            kind = binding["roleRef"]["kind"]
            for rule in roles[kind, binding["roleRef"]["name"]]["rules"]:
                for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
                    word = "rbac" if kind == "Role" else "cluster-rbac"
                    yield f"{word}: {group}/{resource} {','.join(sorted(rule['verbs']))}"


def _paths(spec: Any, containers: list[Any]) -> Iterator[str]:
    paths = {one["name"]: one["hostPath"]["path"] for one in spec.get("volumes", ()) if "hostPath" in one}
    mounts = [mount for container in containers for mount in container.get("volumeMounts", ())]
    written = {mount["name"] for mount in mounts if mount["name"] in paths and not mount.get("readOnly")}
    for name, path in paths.items():
        if not any(path.startswith(f"{paths[top]}/") for top in written):
            yield f"hostPath: {path}{' rw' if name in written else ''}"
