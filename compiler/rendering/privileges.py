"""The privileges that an object has or gives: rights at the API server, access to a node, secrets, registries.

What a device plugin puts into the pods that ask for a device is one too: it comes past Pod Security.

Facts are read from the object alone, and each is a text that means the same on both sides of a change. Those of a
program that privileges.txt lists, and that `recipes.refuse` of a KAECluster refuses, have a line there.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import structs

from compiler import names, wording
from compiler.fleet import clusters, expressions
from compiler.formats import globs
from compiler.planning import images as image_text
from runtime import device_plugin_config, shapes

Object = Mapping[str, Any]

Sort = Literal["rights", "node", "container", "secret", "namespace", "registry", "pods", "confinement"]
"""What a privilege is about; a confinement is the opposite of one, and whoever loses it gains."""

_POD_SECURITY = "pod-security.kubernetes.io/"
_NAMES = 5
"""Objects that a right names in a text."""

_DIGITS = 12
"""Digits of a digest in a text."""

_MUTATING = "MutatingAdmissionPolicy"

IN_PODS = ("admission", "device", "env", "file", "mount", "preload")
"""What a recipe gives to pods: the words behind `pods:` in privileges.txt."""

PRIVILEGED = "privileged: "
CAPABILITY = "capability: "
CAPABILITY_PREFIX = "CAP_"
"""The beginning of the names of capabilities in the kernel, which pods have without it."""
_OF_PATH = re.compile(r"^(hostPath: |pods: (?:device|mount|admission hostPath) )(/\S*)")
_OF_CAPABILITY = re.compile(rf"^({CAPABILITY}){CAPABILITY_PREFIX}")
"""What of a refusal may be written in several ways."""

ALL = "ALL"
"""All capabilities together."""
CAPABILITIES = (
    *("AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN"),
    *("DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE"),
    *("LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST"),
    *("NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT"),
    *("SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME"),
    *("SYS_TTY_CONFIG", "WAKE_ALARM"),
)
"""Those of capabilities(7)."""

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


class Privilege(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A privilege as a fact."""

    sort: Sort
    text: str
    """The privilege; of a right to do something with a resource, only the resource."""
    verb: str = ""
    """What a right allows: get, list, read, write, …; empty for other privileges."""
    name: str = ""
    """The one object that a right is restricted to; empty for a right without such a bound."""
    line: str = ""
    """The privilege in privileges.txt, of a right with all verbs of its rule; empty where that does not list it."""


class Listed(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A line of privileges.txt: a privilege of a program of a recipe."""

    program: str
    """app.kubernetes.io/name of its pods, such as onload-driver."""
    text: str

    def __str__(self) -> str:
        return f"{self.program}: {self.text}"

    def is_refused(self, refusal: str) -> bool:
        """Return whether a line or shell glob matches the privilege or its beginning, with or without its program.

        Who refuses `hostPath: /` refuses `hostPath: / rw` too, and with `pods: env LD_PRELOAD` every value of it; and
        who refuses any capability refuses all of them together, and containers that are privileged, which have all. A
        path is known however it is written, also through links that usual systems have, and who refuses one refuses
        globs of it and the folders around it. What pods get at their admission, or as a preload, is what it is there.
        """
        program, _, wanted = (
            ("*", "", refusal) if re.fullmatch(clusters.PRIVILEGE, refusal) else refusal.partition(": ")
        )
        return names.glob_matches(program, self.program) and any(_covers(wanted, text) for text in self._meanings())

    def _meanings(self) -> Iterator[str]:
        """Yield the privilege, and what else it is."""
        yield self.text
        if self.text == f"{CAPABILITY}{ALL}" or self.text.startswith(PRIVILEGED):
            yield from (f"{CAPABILITY}{name}" for name in (*CAPABILITIES, ALL))
        given = self.text.removeprefix("pods: admission ")
        if given != self.text and given.startswith(("env ", "hostPath ")):
            yield f"pods: {given.replace('hostPath ', 'mount ')}"
        library = self.text.removeprefix("pods: preload ")
        if library != self.text:
            yield f"pods: env LD_PRELOAD={library}"


def _covers(refusal: str, text: str) -> bool:
    """Return whether a refusal without its program meets a privilege, or what a path of it gives besides."""
    wanted = _OF_PATH.sub(lambda part: part[1] + globs.normal(part[2]), _OF_CAPABILITY.sub(r"\1", refusal))
    if any(names.glob_matches(wanted, text[: match.start()]) for match in re.finditer("[ =]|$", text)):
        return True
    refused, given = _OF_PATH.match(wanted), _OF_PATH.match(text)
    if refused is None or given is None or refused[1] != given[1]:
        return False
    mode = wanted[refused.end() :]
    ways = ((one[2], *(real for _, real in globs.behind_links(one[2]))) for one in (given, refused))
    return (not mode or text.endswith(mode)) and any(itertools.starmap(_is_around, itertools.product(*ways)))


def _is_around(path: str, other: str) -> bool:
    """Return whether a path or glob of the host gives another one: the same, or what is in a folder.

    A driver installer alone has `/`, and is refused by that alone: otherwise no recipe with one would be left.
    """
    path, other = path.rstrip("/"), other.rstrip("/")
    return path != "" and path.count("/") <= other.count("/") and globs.share_branch(path, other)


def names_capability(refusal: str) -> bool:
    """Return whether a line without its program names a capability that there is, or all, or is a glob of them."""
    glob = _OF_CAPABILITY.sub(r"\1", refusal).removeprefix(CAPABILITY)
    return any(names.glob_matches(glob, each) for each in (*CAPABILITIES, ALL))


def pod_template(data: Object) -> Object | None:
    """Return the pod template of a workload; None for another object."""
    spec: Object = data.get("spec") or {}
    if data["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec.get("template") if data["kind"] in ("CronJob", "DaemonSet", "Deployment") else None


def containers(spec: Object) -> tuple[Object, ...]:
    """Return the containers of a pod's spec, in the order in which they start."""
    return (*spec.get("initContainers", ()), *spec["containers"])


def images(data: Object | None) -> tuple[str, ...]:
    """Return the images of a workload; none for another object."""
    template = pod_template(data) if data is not None else None
    return tuple(container["image"] for container in containers(template["spec"])) if template is not None else ()


def of_object(data: Object | None) -> frozenset[Privilege]:
    """Return the privileges of an object as facts, without their lines; none for one that is not there."""
    return frozenset(structs.replace(item, line="") for item in _of_object(data)) if data is not None else frozenset()


def _of_object(data: Object) -> Iterator[Privilege]:
    kind, template = data["kind"], pod_template(data)
    if template is not None:
        yield from _of_template(template)
    elif kind in ("Role", "ClusterRole"):
        yield from _of_role(data)
    elif kind in ("RoleBinding", "ClusterRoleBinding"):
        yield from _of_binding(data)
    elif kind == "Namespace":
        yield from _of_namespace(data)
    elif kind == "AppProject":
        yield from _of_project(data)
    elif kind in ("Application", "GitRepository", "Kustomization"):
        yield from (Privilege(sort="rights", text=text) for text in _of_engine(data))
    elif kind == "NetworkPolicy":
        text = f"only the connections of NetworkPolicy {data['metadata']['name']} are allowed"
        yield Privilege(sort="confinement", text=text)
    elif kind == _MUTATING:
        yield from _of_mutations(data["spec"])
    elif kind == "ValidatingAdmissionPolicyBinding":
        name = data["metadata"]["name"]
        others = {"-programs": "deletions of pods", "-device-plugin": "writes of ResourceSlices"}
        what = next((what for end, what in others.items() if name.endswith(end)), "evictions")
        yield Privilege(sort="confinement", text=f"the API server confines {what} to the own node")


def _of_mutations(spec: Object) -> Iterator[Privilege]:
    """Yield what an admission policy sets in pods of other people."""
    conditions = spec.get("matchConditions", ())
    for mutation in spec["mutations"]:
        text = mutation["applyConfiguration"]["expression"]
        for one in sorted({one for one in expressions.read(text) if isinstance(one, expressions.Set)}):
            is_path = one.field == "hostPath"
            what = " ".join(filter(None, (one.field, globs.normal(one.what) if is_path else one.what)))
            yield Privilege(sort="pods", text=f"sets {what} in pods at their admission", line=f"pods: admission {what}")
    # Which value is set, and in which pods, is in the expressions.
    stated = [conditions, spec.get("variables", ()), spec["mutations"], spec["matchConstraints"]]
    digest = hashlib.sha256(msgspec.json.encode(stated, order="sorted")).hexdigest()[:_DIGITS]
    yield Privilege(sort="pods", text=f"changes pods at their admission, by expressions with SHA-256 {digest}…")


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


def listed(workloads: Iterable[Object], every: Iterable[Object]) -> tuple[Listed, ...]:
    """Return the lines on workloads, sorted; `every` object of the cluster tells what their accounts may do."""
    every, found = tuple(every), set[Listed]()
    for workload in workloads:
        if workload["kind"].startswith(_MUTATING):
            name = workload["metadata"]["name"].removeprefix(f"{names.RECIPE}-")
            found.update(Listed(program=name, text=item.line) for item in _of_object(workload) if item.line)
            continue
        template = pod_template(workload) or {}
        program = template["metadata"]["labels"][names.APP_LABEL]
        own = (item.line for item in _of_template(template) if item.line)
        account = _of_account(template["spec"].get("serviceAccountName", "default"), every)
        found.update(Listed(program=program, text=line) for line in (*own, *account))
    return tuple(sorted(found))


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
                [f"{verb}: {right.line}" for right in _of_role(role)]
                if role
                else [f"role: {binding['roleRef']['name']}"]
            )


def _of_role(data: Object) -> Iterator[Privilege]:
    where = f"in namespace {data['metadata']['namespace']}" if data["kind"] == "Role" else "in every namespace"
    for rule in data.get("rules") or ():
        verbs = ",".join(sorted(rule["verbs"]))
        for verb in rule["verbs"]:
            for url in rule.get("nonResourceURLs", ()):
                yield Privilege(sort="rights", text=url, verb=verb, line=f"{url} {verbs}")
            for group in rule.get("apiGroups", ()):
                for resource in rule.get("resources", ()):
                    text = f"{resource}{f'.{group}' if group else ''} {where}"
                    for name in rule.get("resourceNames") or ("",):
                        line = f"{group}/{resource} {verbs}"
                        yield Privilege(sort="rights", text=text, verb=verb, name=name, line=line)


def _of_binding(data: Object) -> Iterator[Privilege]:
    role = data["roleRef"]
    for subject in data.get("subjects") or ():
        who = f"{subject['kind']} {'/'.join(filter(None, (subject.get('namespace'), subject['name'])))}"
        yield Privilege(sort="rights", text=f"{who} has {role['kind']} {role['name']}")


def _of_namespace(data: Object) -> Iterator[Privilege]:
    labels = data["metadata"].get("labels") or {}
    for mode in ("enforce", "audit", "warn"):
        level = labels.get(_POD_SECURITY + mode)
        if level is not None:
            yield Privilege(sort="namespace", text=f"Pod Security: {mode} {level}")


def _of_project(data: Object) -> Iterator[Privilege]:
    spec = data["spec"]
    for source in spec.get("sourceRepos", ()):
        yield Privilege(sort="rights", text=f"Argo CD may apply from {source}")
    for place in spec.get("destinations", ()):
        where = place.get("server") or place.get("name")
        yield Privilege(sort="rights", text=f"Argo CD may apply to {where}, namespace {place.get('namespace')}")
    for key in ("clusterResourceWhitelist", "namespaceResourceWhitelist"):
        for kind in spec.get(key, ()):
            yield Privilege(sort="rights", text=f"Argo CD may apply {kind['kind']}.{kind['group']}".rstrip("."))


def _of_engine(data: Object) -> Iterator[str]:
    """Yield what an engine applies, and as whom: who writes that decides over all that runs in the cluster."""
    spec = data["spec"]
    if data["kind"] == "Application":
        source = spec["source"]
        url = wording.without_credentials(source["repoURL"])
        yield f"Argo CD applies {source['path']} of {url} at {source['targetRevision']}"
        yield f"Argo CD applies within project {spec['project']}"
    elif data["kind"] == "GitRepository":
        yield f"Flux fetches {wording.without_credentials(spec['url'])} at {spec['ref']['branch']}"
        if "secretRef" in spec:
            yield f"Flux fetches with Secret {spec['secretRef']['name']}"
    else:
        source = spec["sourceRef"]
        named = "/".join(filter(None, (source.get("namespace"), source["name"])))
        yield f"Flux applies {spec['path']} of {source['kind']} {named}"
        if "kubeConfig" in spec:
            yield f"Flux applies with Secret {spec['kubeConfig']['secretRef']['name']}"


def _of_template(template: Object) -> Iterator[Privilege]:
    spec = template["spec"]
    for key, text in (
        ("hostPID", "sees the node's processes"),
        ("hostIPC", "shares the node's IPC"),
        ("hostNetwork", "shares the node's network"),
        ("shareProcessNamespace", "has one view of processes in all of its containers"),
    ):
        if spec.get(key):
            yield Privilege(sort="node", text=f"{text} ({key})", line=key)
    if spec.get("runtimeClassName"):
        line = f"runtimeClass: {spec['runtimeClassName']}"
        yield Privilege(sort="node", text=f"is run by RuntimeClass {spec['runtimeClassName']}", line=line)
    yield from _of_volumes(spec)
    groups = (spec.get("securityContext") or {}).get("supplementalGroups", ())
    yield from (Privilege(sort="container", text=f"its containers are of group {group}") for group in groups)
    secrets = (secret["name"] for secret in spec.get("imagePullSecrets", ()))
    yield from (Privilege(sort="secret", text=f"pulls images with Secret {name}") for name in secrets)
    if spec.get("automountServiceAccountToken", True):
        yield _token(spec)
    annotations = template.get("metadata", {}).get("annotations") or {}
    for container in containers(spec):
        yield from _of_container(container, spec.get("securityContext") or {}, annotations)
        yield Privilege(sort="registry", text=f"images from {image_text.registry(container['image'])}")
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") != "Always" and (container.get("securityContext") or {}).get("privileged"):
            yield Privilege(sort="confinement", text=f"container {container['name']} ends before its pod is ready")
    if names.CONFIG in annotations:
        yield from _of_config(annotations[names.CONFIG])


def _token(spec: Object) -> Privilege:
    account = spec.get("serviceAccountName", "default")
    return Privilege(sort="secret", text=f"has the token of ServiceAccount {account}", line="token")


class _Repository(msgspec.Struct, frozen=True):
    """Where the watcher commits."""

    url: str
    branch: str = ""
    """Empty for the default."""


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a program's config that gives a privilege; a driver installer has the names of resources alone."""

    resources: tuple[device_plugin_config.AnyResource | str, ...] = ()
    home: shapes.Home | None = None
    device_nodes: shapes.DeviceNodes | None = None
    repository: _Repository | None = None
    push_options: tuple[str, ...] = ()


def _of_config(text: str) -> Iterator[Privilege]:
    """Yield what a config gives: to pods that ask for a device, to who opens device nodes, to the watcher."""
    config = msgspec.json.decode(text, type=_Config)
    if config.device_nodes is not None:
        yield from _opened(config.device_nodes)
    if config.repository is not None:
        url, branch = wording.without_credentials(config.repository.url), config.repository.branch
        yield Privilege(sort="rights", text=f"commits to {url}{f' at {branch}' if branch else ''}")
    for option in config.push_options:
        yield Privilege(sort="rights", text=f"pushes with the option {wording.escaped(option)}")
    for resource in config.resources:
        if not isinstance(resource, str):
            yield from _in_pods(resource, config.home)


def _opened(nodes: shapes.DeviceNodes) -> Iterator[Privilege]:
    if nodes.mode == "0660":
        yield Privilege(sort="confinement", text="root and one group alone open the device nodes")
    if nodes.group is not None:
        yield Privilege(sort="node", text=f"lets group {nodes.group} open the device nodes")


def _in_pods(resource: device_plugin_config.AnyResource, home: shapes.Home | None) -> Iterator[Privilege]:
    """Yield what the pods that ask for a device get: device_plugin/kubelet/allocation.py."""
    if isinstance(resource, device_plugin_config.Vfio):
        yield from _given("device", _VFIO, "", "rw")
    if isinstance(resource, device_plugin_config.Char):
        for path in (path for group in resource.groups for path in group.paths):
            yield from _given("device", path.path, path.as_, path.permissions)
    if isinstance(resource, device_plugin_config.Uacce):
        if resource.mask_sysfs:
            text = f"the pods with {resource.name} see their own devices alone, below /sys/class/uacce"
            yield Privilege(sort="confinement", text=text)
        if resource.device_nodes is not None:
            yield from _opened(resource.device_nodes)
    yield from _injected(resource.inject)
    if home is not None:
        yield from _user_space(resource.inject, home)


_VFIO = "/dev/vfio/*"
_ALLOWED: Mapping[str, str] = {"r": "read", "w": "write", "m": "make"}
_NOUNS: Mapping[str, str] = {"device": "device node {} of the node", "mount": "{} of the node"}


def _given(sort: str, path: str, to: str | None, permissions: str) -> Iterator[Privilege]:
    """Yield what pods may do with a device node or a mounted path of the host."""
    place = f" as {to}" if to else ""
    shown = f" {permissions}" if sort == "device" or "w" in permissions else ""
    for permission in permissions:
        yield Privilege(
            sort="pods",
            text=f"{_NOUNS[sort].format(path)} in pods{place}",
            verb=_ALLOWED[permission],
            line=f"pods: {sort} {path}{place}{shown}",
        )


def _injected(inject: device_plugin_config.Inject) -> Iterator[Privilege]:
    for node in inject.nodes:
        yield from _given("device", node.path, node.as_, node.permissions)
    for mount in inject.mounts:
        yield from _given("mount", mount.path, mount.as_, "r" if mount.read_only else "rw")
    for name, value in inject.env.items():
        yield _variable(name, value)
    for library in inject.preload:
        yield Privilege(sort="pods", text=f"preloads {library} in pods", line=f"pods: preload {library}")
    for file in inject.files:
        # A text of many lines is told by its digest: what is preloaded or configured by it is another thing then.
        digest = hashlib.sha256(file.text.encode()).hexdigest()[:_DIGITS]
        text = f"puts a file {file.as_} into pods, with SHA-256 {digest}…"
        yield Privilege(sort="pods", text=text, line=f"pods: file {file.as_}")


_DECIDING = re.compile(
    # ld.so(8), and the variables of shells, interpreters, OpenSSL, git and curl that name code, settings or hosts.
    r"(LD|GLIBC|GIT|JAVA|CURL|NODE_(EXTRA|TLS|ICU))_.*|(OPENSSL|SSL|BASH|PYTHON|PERL|RUBY).*|ENV|IFS|HOME"
    r"|.*(PATH|PRELOAD|OPTIONS|OPTS?|PROXY|COMMAND|SHELL|EDITOR|PAGER|ASKPASS)"
    # resolv.conf(5), hostname(7), and the address of the API server in a pod.
    r"|LOCALDOMAIN|HOSTALIASES|KUBERNETES_.*|KUBECONFIG|.*_(HOST|SERVER|ADDR|ADDRESS|ENDPOINT|URL|URI)"
    # What a container's runtime hands out, whatever the pod asks for.
    r"|.*_VISIBLE_DEVICES|.*_DRIVER_CAPABILITIES",
    re.IGNORECASE,
)
"""Names of variables whose value decides, however it looks, over what a program runs, whom it asks, or what it gets."""


def _set(name: str, value: str) -> str | None:
    """Return a variable with its value, without credentials, if that decides over what a program runs; else None."""
    if value and ("/" in value or _DECIDING.fullmatch(name)):
        return f"{name}={wording.escaped(wording.without_credentials(value))}"
    return None


def _variable(name: str, value: str) -> Privilege:
    shown = _set(name, value) or name
    return Privilege(sort="pods", text=f"sets {shown} in pods", line=f"pods: env {shown}")


def _user_space(inject: device_plugin_config.Inject, home: shapes.Home) -> Iterator[Privilege]:
    """Yield the libraries of the host that pods get, and the file that has OpenSSL load its engine."""
    if inject.libraries is not None:
        yield from _given("mount", inject.libraries.path or home.files, None, "r")
        yield _variable("LD_LIBRARY_PATH", f"{home.files}/lib")
    if inject.openssl is not None and inject.openssl.conf is not None:
        yield _variable("OPENSSL_CONF", f"{home.run}/openssl/openssl.cnf")
        for name, value in inject.openssl.settings.items():
            yield Privilege(sort="pods", text=f"sets {name} = {value} in the openssl.cnf of pods")


def _of_volumes(spec: Object) -> Iterator[Privilege]:
    volumes = spec.get("volumes", ())
    mounted = [globs.normal(one["hostPath"]["path"]) if "hostPath" in one else None for one in volumes]
    written = [path for one, path in zip(volumes, mounted, strict=True) if path is not None and _is_written(spec, one)]
    for volume, path in zip(volumes, mounted, strict=True):
        # What is below a path that the pod writes is no further one.
        if path is not None and not any(path != top and path.startswith(f"{top.rstrip('/')}/") for top in written):
            does, mode = ("reads and writes", " rw") if _is_written(spec, volume) else ("reads", "")
            yield Privilege(sort="node", text=f"{does} {path} of the node", line=f"hostPath: {path}{mode}")
        yield from _of_secrets(spec, volume)


def _is_written(spec: Object, volume: Object) -> bool:
    """Return whether a container of a pod's spec may write to a volume, or the kubelet makes a file."""
    if volume.get("hostPath", {}).get("type") == "FileOrCreate":
        return True
    mounts = (mount for container in containers(spec) for mount in container.get("volumeMounts", ()))
    return any(mount["name"] == volume["name"] and not mount.get("readOnly") for mount in mounts)


def _of_secrets(spec: Object, volume: Object) -> Iterator[Privilege]:
    sources: Sequence[Object] = (volume, *volume.get("projected", {}).get("sources", ()))
    for source in sources:
        name = source.get("secret", {}).get("secretName") or source.get("secret", {}).get("name")
        if name:
            yield Privilege(sort="secret", text=f"reads Secret {name}")
        if "serviceAccountToken" in source:
            audience = source["serviceAccountToken"].get("audience")
            for_others = Privilege(sort="secret", text=f"has a token for {audience}", line="token")
            yield for_others if audience else _token(spec)


def _of_container(container: Object, of_pod: Object, annotations: Mapping[str, str]) -> Iterator[Privilege]:
    own = container.get("securityContext") or {}
    name = container["name"]
    settings = {**of_pod, **own}
    is_privileged = bool(own.get("privileged"))
    profile = annotations.get(_APPARMOR + name) or settings.get("appArmorProfile", {}).get("type")
    facts = (
        ("is privileged", is_privileged, f"{PRIVILEGED}{name}"),
        ("runs as root", settings.get("runAsUser") == 0, ""),
        # The kubelet allows it unless the container says otherwise.
        (
            "may gain more privileges than its parent",
            is_privileged or own.get("allowPrivilegeEscalation", True),
            "" if is_privileged else f"allowPrivilegeEscalation: {name}",
        ),
        *(
            (f"has SELinux {key} {value}", True, f"seLinux: {key} {value}")
            for key, value in sorted(settings.get("seLinuxOptions", {}).items())
        ),
        ("has no seccomp profile", settings.get("seccompProfile", {}).get("type", "Unconfined") == "Unconfined", ""),
        ("has no AppArmor profile (unconfined)", str(profile).lower() == "unconfined", ""),
        *(
            (f"has capability {added}", True, f"{CAPABILITY}{added}")
            for added in (name.removeprefix(CAPABILITY_PREFIX) for name in own.get("capabilities", {}).get("add", ()))
        ),
        *(
            (f"takes port {port['hostPort']} of the node", True, f"hostPort: {port['hostPort']}")
            for port in container.get("ports", ())
            if "hostPort" in port
        ),
    )
    for text, holds, line in facts:
        if holds:
            yield Privilege(sort="container", text=f"container {name} {text}", line=line)
    for dropped in own.get("capabilities", {}).get("drop", ()):
        yield Privilege(sort="confinement", text=f"container {name} drops capability {dropped}")
    if settings.get("runAsNonRoot") or settings.get("runAsUser"):
        yield Privilege(sort="confinement", text=f"container {name} does not run as root")
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        if reference:
            yield Privilege(sort="secret", text=f"reads Secret {reference['name']}")
        shown = _set(variable["name"], variable.get("value", ""))
        if shown and (is_privileged or _DECIDING.fullmatch(variable["name"])):
            yield Privilege(sort="container", text=f"container {name} gets {shown}")
