"""Vendors' programs as DaemonSets: the pod of a recipe in the frame of the compiler, its account and its rights."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from compiler import names, recipes
from compiler.fleet import definitions, pods
from compiler.formats import references
from compiler.planning import images, kernels, plan, pools, supported
from compiler.rendering import ir, node_programs, privileges

Data = Mapping[str, Any]

_FILE = "device.openfuyao.com/file-{}"
"""The annotation with a file of a pod, by its number: names of files may be longer than those of annotations."""

_AFTER = "wait-for-driver"
"""The container that waits for the driver."""
_WAIT = (
    "trap 'exit 143' TERM; changing=$1 unproved=$2; shift 2; "
    'proved() { for module; do [ -d "/sys/module/$module" ] || return; done; '
    'ls "${changing%/*}" "${unproved%/*}" >/dev/null && [ ! -e "$changing" ] && [ ! -e "$unproved" ]; }; '
    'until proved "$@"; do sleep 2 & wait $!; done'
)
"""Until the modules are loaded, and, looked at after them, no change of the driver is announced or unproved: a change
that begins in between finds the pod, and takes it away. A folder that cannot be read hides what is in it. Process 1 of
a container ends with SIGTERM only by a trap."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet of a program."""

    namespace: str
    name: str
    recipe: str
    component: str
    """Its name in the recipe."""
    app: str
    """app.kubernetes.io/name of the pods, and their ServiceAccount."""
    policy: str
    pool: str | None
    """None where the policy has one pool, or the program once."""
    after: str | None
    """The app of the installers that have to be done first, and that take its pods away."""
    settings: pods.Settings
    pull: pods.Container
    image: str
    images: tuple[str, ...]
    terms: tuple[ir.Term, ...]
    max_unavailable: int | str
    has_token: bool
    annotations: Mapping[str, str]
    """The texts of its files."""
    pod: Data
    """The other fields of the pod's spec."""


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a program, and what it may do."""

    name: str
    cluster_role: str
    namespace: str
    has_token: bool
    rules: tuple[Data, ...]
    cluster_rules: tuple[Data, ...]


Deployed = tuple[pools.Division, pools.Deployment]
"""A policy of a cluster, and a program of it in one of its pools."""


def deployed(one: plan.RecipePlan, program: str) -> list[Deployed]:
    """Return the DaemonSets of a program of a recipe."""
    return [
        (division, made) for division in one.divisions for made in division.deployments if made.program.name == program
    ]


def asks_for_more(stated: Data) -> bool:
    """Return whether the pod of a program is one that OpenShift's `restricted-v2` does not admit."""
    pod = stated["pod"]
    containers = privileges.containers(pod)
    contexts = [holder.get("securityContext", {}) for holder in (pod, *containers)]
    return (
        stated.get("after") == "driver"  # The container that waits is root, and reads paths of the node.
        or any(pod.get(field) for field in ("hostPID", "hostIPC", "hostNetwork"))
        or any("hostPath" in volume for volume in pod.get("volumes", ()))
        or any("hostPort" in port for container in containers for port in container.get("ports", ()))
        or any(context.get("capabilities", {}).get("add") for context in contexts)
        or any(context.get(field, False) is not False for context in contexts for field in _BEYOND)
    )


_BEYOND = frozenset(
    ("allowPrivilegeEscalation", "fsGroup", "privileged", "procMount", "runAsGroup", "runAsUser", "seLinuxOptions")
)
"""Fields of a security context whose values the platform gives, or whose other value it refuses."""


def name(policy: definitions.Policy, made: pools.Deployment) -> str:
    """Return the name of a DaemonSet of a program."""
    stem = f"{policy.recipe.app(made.program.name)}-{policy.name}"
    return stem if made.part is None or made.part.is_whole else f"{stem}--{made.part.name}"


def in_cluster(name: str) -> str:
    """Return the name of a recipe's object without a namespace: such names are everybody's, as cluster-admin is."""
    return f"{names.RECIPE}-{name}"


def daemon_sets(division: pools.Division) -> Iterator[str]:
    """Yield the names of all DaemonSets of a policy."""
    policy = division.policy
    yield from (node_programs.driver_name(policy, pool) for pool in division.pools)
    if policy.offered is not None:
        yield node_programs.device_plugin_name(policy)
    yield from (name(policy, made) for made in division.deployments)


def of_recipe(one: plan.RecipePlan) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of accounts of a recipe, and of what the API server adds to pods for it."""
    yield from (("ServiceAccount", one.recipe.app(component)) for component in one.recipe.components)
    installed = (division.policy for division in one.divisions if division.policy.installed is not None)
    policies = dict.fromkeys(policy.name for policy in installed)
    yield from (("ServiceAccount", f"{one.recipe.app('driver')}-{policy}") for policy in policies)
    added = one.recipe.admission if supported.can_mutate(one.cluster.spec) else ()
    yield from (("MutatingAdmissionPolicy", admission(one.recipe, stated)) for stated in added)


def admission(recipe: recipes.Recipe, stated: Data) -> str:
    """Return the name of what the API server adds to pods for a recipe."""
    return in_cluster(recipe.app(stated["name"]))


def of_plan(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the programs of a cluster, and their rights."""
    for one in planned.recipes:
        for program in one.recipe.programs:
            found = deployed(one, program)
            if found:
                yield from _rights(planned.cluster, one.recipe.app(program), found[0][1].program, one.recipe.folder)
            for division, made in found:
                value = _program(planned.cluster, division, made)
                yield ir.Input(("daemonset",), value, folder=one.recipe.folder)


def has_token(program: definitions.Program) -> bool:
    """Return whether a program has rights at the API server."""
    return bool(program.data["rules"] or program.data["clusterRules"])


def _rights(cluster: definitions.Cluster, app: str, program: definitions.Program, folder: str) -> Iterator[ir.Input]:
    value = Rights(
        name=app,
        cluster_role=in_cluster(app),
        namespace=cluster.spec.namespace,
        has_token=has_token(program),
        rules=tuple(map(_rule, program.data["rules"])),
        cluster_rules=tuple(map(_rule, program.data["clusterRules"])),
    )
    yield ir.Input(("serviceaccount",), value, folder=folder)
    if value.rules:
        yield ir.Input(("role", "rolebinding"), value, folder=folder)
    if value.cluster_rules:
        yield ir.Input(("clusterrole", "clusterrolebinding"), value, folder=folder)


def _rule(stated: Data) -> Data:
    return {field: value for field, value in stated.items() if value}


def scope(cluster: definitions.Cluster, policy: definitions.Policy, made: pools.Deployment) -> references.Scope:
    """Return the value of each name that a program may refer to; of facts about nodes, those that all of them have."""
    by_kernel = made.part.kernels if made.part else None
    kernel = by_kernel.kernel if by_kernel else None
    numbers = kernels.numbers(kernel) if kernel else {}
    architectures = made.program.architectures
    return {
        **made.program.scope,
        **{f"images.{name}": image for name, image in made.images},
        "policy.name": policy.name,
        "pool.name": made.part.name if made.part else policy.name,
        "cluster.name": cluster.name,
        "namespace": cluster.spec.namespace,
        "kubeletDir": policy.pods.kubelet_dir,
        **({"kernel.full": kernel, **numbers} if kernel else {}),
        **(kernels.of_system(by_kernel.mapping.os) if by_kernel else {}),
        **({"arch": architectures[0]} if len(architectures) == 1 else {}),
    }


def filled(cluster: definitions.Cluster, policy: definitions.Policy, made: pools.Deployment) -> dict[str, Any]:
    """Return the pod of a recipe with the values of a policy, before anything of the frame."""
    pod: Any = references.filled(made.program.data["pod"], scope(cluster, policy, made))
    return {} if pod is references.ABSENT else dict(pod)


def _program(cluster: definitions.Cluster, division: pools.Division, made: pools.Deployment) -> Program:
    policy, program = division.policy, made.program
    pod = filled(cluster, policy, made)
    texts = {
        volume: references.files(files, scope(cluster, policy, made)) for volume, files in program.data["files"].items()
    }
    numbered = [(volume, file) for volume, own in texts.items() for file in sorted(own)]
    annotations = {place: _FILE.format(number) for number, place in enumerate(numbered, start=1)}
    waits = program.data.get("after") == "driver" and policy.installed is not None
    if "volumes" in pod:
        pod["volumes"] = [_volume(one, texts, annotations) for one in pod["volumes"]]
    for field in ("initContainers", "containers"):
        if field in pod:
            pod[field] = [_container(one, dict(made.images), program) for one in pod[field]]
    if waits:
        _wait(pod, cluster, policy, made)
    return Program(
        namespace=cluster.spec.namespace,
        name=name(policy, made),
        recipe=policy.recipe.name,
        component=program.name,
        app=policy.recipe.app(program.name),
        policy=policy.name,
        pool=made.part.name if made.part and not made.part.is_whole else None,
        after=policy.recipe.driver if waits else None,
        settings=policy.pods,
        pull=program.pull,
        image=made.image,
        images=tuple(image for _, image in made.images),
        terms=tuple(map(ir.Term, made.terms)),
        max_unavailable=program.pace,
        has_token=has_token(program),
        annotations={annotations[place]: texts[place[0]][place[1]] for place in numbered},
        pod=_defaults(pod),
    )


def _defaults(pod: Data) -> dict[str, Any]:
    """Return a pod with what the compiler adds where the recipe says nothing."""
    security = pod.get("securityContext", {})
    return {**pod, "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, **security}}


def _volume(data: Data, texts: Mapping[str, Mapping[str, str]], annotations: Mapping[tuple[str, str], str]) -> Data:
    """Return a volume; files are fields of the pod, so that a change of them is one of the pod."""
    if "downwardAPI" in data:
        items = [{**one, **_versioned(one)} for one in data["downwardAPI"]["items"]]
        return {**data, "downwardAPI": {**data["downwardAPI"], "items": items}}
    if "files" not in data:
        return data
    own = data["files"]
    items = [
        {
            "path": file,
            **_versioned({"fieldRef": {"fieldPath": f"metadata.annotations['{annotations[own['name'], file]}']"}}),
        }
        for file in sorted(texts[own["name"]])
    ]
    mode = {"defaultMode": own["defaultMode"]} if "defaultMode" in own else {}
    # A volume without files is a folder without any: the API server takes no empty list of items.
    source = {"downwardAPI": {"items": items, **mode}} if items else {"emptyDir": {}}
    return {**{name: value for name, value in data.items() if name != "files"}, **source}


def _container(data: Data, of_images: Mapping[str, str], program: definitions.Program) -> Data:
    """Return a container of a recipe with its image, the amounts of the policy, and the frame's defaults."""
    security = dict(data.get("securityContext", {}))
    added = security.get("capabilities", {}).get("add", ())
    # The API server refuses a container that may not gain rights and has all of them (`validateSecurityContext`).
    if not security.get("privileged") and "SYS_ADMIN" not in added:
        security.setdefault("allowPrivilegeEscalation", False)
    stated = data.get("resources", {})
    given = program.resources.get(data["name"]) or pods.Resources(**stated)
    return {
        **data,
        "image": of_images[data["image"]],
        "imagePullPolicy": program.pull.pull_policy,
        **({"resources": given} if given else {}),
        **({"env": [_variable(one) for one in data["env"]]} if "env" in data else {}),
        "securityContext": security,
    }


def _variable(data: Data) -> Data:
    source = data.get("valueFrom", {})
    return {**data, "valueFrom": _versioned(source)} if "fieldRef" in source else data


def _versioned(source: Data) -> Data:
    """Return a field of the pod with its version, which the API server adds."""
    return {"fieldRef": {"apiVersion": "v1", **source["fieldRef"]}}


def _wait(
    pod: dict[str, Any], cluster: definitions.Cluster, policy: definitions.Policy, made: pools.Deployment
) -> None:
    """Add the container that waits until the recipe's own driver is proved, by our own image."""
    part = made.part
    installed = policy.installed
    if installed is None:
        return
    driver = installed.overridden(
        part.kernels.mapping if part and part.kernels else None, part.group.declared if part and part.group else None
    )
    kernel = part.kernels.kernel if part and part.kernels else None
    own = driver.images[driver.installer] if kernel is None else _of_kernel(driver, kernel)
    home = policy.recipe.home
    seen = (("driver-run", home.run, "/host/run"), ("driver-options", "/etc/modprobe.d", "/host/modprobe.d"))
    blocked = f"/host/modprobe.d/{home.options or home.prefix}-unproved.conf"
    waiting = {
        "name": _AFTER,
        "image": images.of(own, cluster.spec.images.mirrors),
        "imagePullPolicy": driver.container.pull_policy,
        "command": [
            *("sh", "-c", _WAIT, _AFTER, "/host/run/driver-changing", blocked),
            *(one.name for one in driver.modules),
        ],
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            # Where SELinux is enforced for containers, container_t may not read these folders.
            "seLinuxOptions": {"type": "spc_t"},
        },
        "volumeMounts": [{"name": volume, "mountPath": to, "readOnly": True} for volume, _, to in seen],
    }
    pod["initContainers"] = [waiting, *pod.get("initContainers", ())]
    pod["volumes"] = [
        *pod.get("volumes", ()),
        *({"name": volume, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for volume, path, _ in seen),
    ]


def _of_kernel(driver: definitions.Driver, kernel: str) -> definitions.ImageParts:
    return {part: kernels.filled(text, kernel) for part, text in driver.images[driver.installer].items()}
