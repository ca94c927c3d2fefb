"""The privileges of objects: what one has or gives is a fact, however it is written; that of recipes is listed."""

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from compiler import pipeline
from compiler.fleet import definitions
from compiler.rendering import privileges
from tests import builders

INIT = {"name": "i", "image": "x/a:1", "securityContext": {"allowPrivilegeEscalation": False}}
LABELS = {"app.kubernetes.io/name": "x-driver"}
ONLOAD = builders.recipe(
    "onload",
    driver={"image": "installer", "modules": [{"name": "onload"}]},
    devicePlugin={"resources": [{"name": "example.com/x", "class": "token", "count": 1, "requires": ["/opt/x/y"]}]},
)


def daemon_set(**spec: Any) -> dict[str, Any]:
    """A DaemonSet with this pod spec, which has no privilege by itself."""
    usual = {**container(), "automountServiceAccountToken": False, "serviceAccountName": "x-driver"}
    return {"kind": "DaemonSet", "spec": {"template": {"metadata": {"labels": LABELS}, "spec": usual | spec}}}


def role(kind: str, name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": "n"}, "rules": list(rules)}


def binding(kind: str, to: str, role_kind: str, role: str) -> dict[str, Any]:
    subjects = [{"kind": "ServiceAccount", "name": to}]
    return {"kind": kind, "metadata": {"name": "b"}, "subjects": subjects, "roleRef": {"kind": role_kind, "name": role}}


def container(**fields: Any) -> dict[str, Any]:
    rights = {"allowPrivilegeEscalation": False, **fields.pop("securityContext", {})}
    return {"containers": [{"name": "a", "image": "x/a:1", "securityContext": rights, **fields}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"automountServiceAccountToken": True}, ["token"]),
        ({"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}]}}]}, ["token"]),
        ({"hostPID": True, "hostIPC": True, "hostNetwork": True}, ["hostIPC", "hostNetwork", "hostPID"]),
        (container(securityContext={"privileged": True}), ["privileged: a"]),
        ({"initContainers": [{**INIT, "securityContext": {"privileged": True}}]}, ["privileged: i"]),
        (container(securityContext={"capabilities": {"add": ["NET_ADMIN"]}}), ["capability: NET_ADMIN"]),
        (container(securityContext={"allowPrivilegeEscalation": True}), ["allowPrivilegeEscalation: a"]),
        (container(securityContext={"seLinuxOptions": {"type": "unconfined_t"}}), ["seLinux: type unconfined_t"]),
        ({"securityContext": {"seLinuxOptions": {"type": "unconfined_t"}}}, ["seLinux: type unconfined_t"]),
        (container(ports=[{"containerPort": 80}, {"hostPort": 81}]), ["hostPort: 81"]),
        ({"volumes": [{"name": "h", "hostPath": {"path": "/opt"}}]}, ["hostPath: /opt"]),
        (
            {
                **container(volumeMounts=[{"name": "h", "readOnly": True}]),
                "initContainers": [{**INIT, "volumeMounts": [{"name": "h"}]}],
                "volumes": [{"name": "h", "hostPath": {"path": "/opt"}}],
            },
            ["hostPath: /opt rw"],
        ),
    ],
)
def test_a_privilege_of_a_pod_is_a_line(spec: dict[str, Any], expected: list[str]) -> None:
    listed = privileges.listed([daemon_set(**spec)], [])

    assert list(map(str, listed)) == [f"x-driver: {text}" for text in expected]


def test_an_init_container_that_ends_and_a_token_of_its_own_gain_nothing() -> None:
    privileged = {"securityContext": {"privileged": True}, "volumeMounts": [{"name": "host"}]}
    host = {"name": "host", "hostPath": {"path": "/"}}
    module = {"name": "module", "hostPath": {"path": "/sys/module"}}
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    stays = daemon_set(**container(**privileged), volumes=[host], automountServiceAccountToken=True)
    ends = daemon_set(
        initContainers=[{"name": "a", "image": "x/a:1", **privileged}],
        containers=[{"name": "a", "image": "x/a:1", "volumeMounts": [{"name": "module", "readOnly": True}]}],
        volumes=[host, module, token],
    )

    was, now = privileges.of_object(stays), privileges.of_object(ends)

    assert was < now
    assert [(one.sort, one.text) for one in now - was] == [("confinement", "container a ends before its pod is ready")]


def test_the_rights_of_an_account_are_those_of_its_roles() -> None:
    evict = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update", "get"]}
    every = [
        role("ClusterRole", "evict", evict),
        role("Role", "evict", {**evict, "verbs": ["*"]}),
        role("Role", "swap", leases),
        role("Role", "unbound", {**evict, "verbs": ["delete"]}),
        binding("ClusterRoleBinding", "x-driver", "ClusterRole", "evict"),
        binding("RoleBinding", "x-driver", "Role", "swap"),
        binding("RoleBinding", "x-driver", "ClusterRole", "system:openshift:scc:privileged"),
        binding("RoleBinding", "another", "Role", "unbound"),
    ]

    assert [one.text for one in privileges.listed([daemon_set()], every)] == [
        "cluster-rbac: /pods/eviction create",
        "rbac: coordination.k8s.io/leases get,update",
        "role: system:openshift:scc:privileged",
    ]


def test_the_output_lists_the_privileges_of_recipes_once_and_those_of_kae_never() -> None:
    policy = builders.device_policy("desk", ONLOAD, kernelMappings=[{"name": "a", "regexp": "^5"}])
    kae = builders.policy("tls", **builders.PINNED)

    assert "privileges.txt" not in builders.files([kae])
    assert builders.files([kae, policy])["privileges.txt"].splitlines() == [
        "onload-device-plugin: hostPath: /dev",
        "onload-device-plugin: hostPath: /opt",
        "onload-device-plugin: hostPath: /run/kae/recipes/onload rw",
        "onload-device-plugin: hostPath: /var/lib/kubelet/plugins_registry/onload rw",
        "onload-device-plugin: seLinux: type spc_t",
        "onload-driver: cluster-rbac: /pods/eviction create",
        "onload-driver: hostPID",
        "onload-driver: hostPath: / rw",
        "onload-driver: privileged: installer",
        "onload-driver: rbac: coordination.k8s.io/leases create",
        "onload-driver: rbac: coordination.k8s.io/leases get,update",
        "onload-driver: token",
    ]


INJECT: dict[str, Any] = {
    "nodes": [{"path": "/dev/x*", "permissions": "rw"}],
    "mounts": [{"path": "/opt/x", "as": "/usr/x"}, {"path": "/opt/rw", "readOnly": False}],
    "env": {"LEVEL": "3", "LD_LIBRARY_PATH": "/opt/x\nx-driver: token"},
    "preload": ["/opt/x/lib.so"],
    "files": [{"name": "conf", "as": "/etc/ld.so.preload", "text": "/opt/x/lib.so"}],
}
IN_PODS = [
    "pods: device /dev/npu* r",
    "pods: device /dev/vfio/* rw",
    "pods: device /dev/x* rw",
    r"pods: env LD_LIBRARY_PATH=/opt/x\nx-driver: token",
    "pods: env LEVEL",
    "pods: file /etc/ld.so.preload",
    "pods: mount /opt/rw rw",
    "pods: mount /opt/x as /usr/x",
    "pods: preload /opt/x/lib.so",
]


def offering(*inject: dict[str, Any]) -> definitions.Policy:
    """A policy of a recipe whose resources give pods this beside their devices."""
    groups = [{"paths": [{"path": "/dev/npu*", "permissions": "r"}]}]
    char = {"name": "example.com/npu", "class": "char", "groups": groups, "inject": list(inject)}
    vfio = {"name": "example.com/vm", "class": "vfio", "kind": "npu"}
    match = {"pci": [{"kind": "npu", "vendor": "1234", "devices": ["0001"]}]}
    recipe = builders.recipe("x", match=match, devicePlugin={"resources": [char, vfio]})
    return builders.device_policy("desk", recipe)


def test_what_a_recipe_gives_to_pods_is_listed_as_a_privilege() -> None:
    listed = builders.files([offering(INJECT)])["privileges.txt"].splitlines()

    assert [line for line in listed if ": pods: " in line] == [f"x-device-plugin: {text}" for text in IN_PODS]


@pytest.mark.parametrize(
    "refusal", [*IN_PODS, "pods: mount * rw", "x-device-plugin: pods: preload *", "pods: env LD_*"]
)
def test_a_cluster_refuses_what_a_recipe_gives_to_pods(refusal: str) -> None:
    planned, _ = builders.view([offering(INJECT)], (), builders.cluster(recipes={"refuse": [refusal]}))

    findings = pipeline.check_objects(planned, pipeline.render_cluster(planned, builders.renderer())[1])

    assert [finding.code for finding in findings] == ["privilege-refused"]


@pytest.mark.parametrize(
    ("was", "now", "gained"), [("r", "rw", ["may write device node /dev/x of the node in pods"]), ("rw", "r", [])]
)
def test_what_pods_may_write_is_another_privilege_than_what_they_read(was: str, now: str, gained: list[str]) -> None:
    made = (builders.objects([offering({"nodes": [{"path": "/dev/x", "permissions": each}]})]) for each in (was, now))

    assert _gained(*made) == gained


def test_another_text_of_a_file_in_pods_is_another_privilege() -> None:
    texts = ("/opt/x/lib.so", "/opt/x/lib.so\n/opt/evil.so")
    made = [builders.objects([offering({"files": [{**INJECT["files"][0], "text": text}]})]) for text in texts]

    (gained,) = _gained(*made)

    assert gained == f"puts a file /etc/ld.so.preload into pods, with SHA-256 {_digest(texts[1])}…"
    assert _gained(made[0], made[0]) == []


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _gained(*made: Mapping[str, Any]) -> list[str]:
    """What the objects of the second tree may that those of the first may not."""
    before, after = (frozenset().union(*map(privileges.of_object, each.values())) for each in made)
    return list(privileges.texts(sorted(after - before)))


@pytest.mark.parametrize(
    ("refusal", "programs"),
    [
        ("hostPID", ["onload-driver"]),
        ("hostPath: *", ["onload-device-plugin", "onload-driver"]),
        ("hostPath: /dev rw", []),
        ("onload-device-plugin: hostPath: /opt", ["onload-device-plugin"]),
        ("*-driver: cluster-rbac: *", ["onload-driver"]),
        ("hostNetwork", []),
    ],
)
def test_a_cluster_refuses_what_a_line_or_a_glob_names(refusal: str, programs: list[str]) -> None:
    cluster = builders.cluster(recipes={"refuse": ["hostIPC", refusal]})
    planned, _ = builders.view([builders.device_policy("desk", ONLOAD)], (), cluster)

    findings = pipeline.check_objects(planned, pipeline.render_cluster(planned, builders.renderer())[1])

    assert [finding.message.split("'")[3] for finding in findings] == programs
    assert {(finding.code, finding.span.line) for finding in findings} <= {("privilege-refused", 9)}


def facts(**pod: Any) -> list[str]:
    """The privileges that concern secrets and nodes of a Deployment with this pod spec."""
    spec = {"containers": [], "automountServiceAccountToken": False} | pod
    data = {"kind": "Deployment", "spec": {"template": {"metadata": {}, "spec": spec}}}
    return [item.text for item in sorted(privileges.of_object(data)) if item.sort in ("secret", "node")]


def test_a_destination_of_argo_cd_is_said_by_its_name_or_its_server() -> None:
    places = [{"name": "prod", "namespace": "kae"}, {"server": "https://k8s.example.com", "namespace": "kae"}]

    assert sorted(
        item.text for item in privileges.of_object({"kind": "AppProject", "spec": {"destinations": places}})
    ) == [
        "Argo CD may apply to https://k8s.example.com, namespace kae",
        "Argo CD may apply to prod, namespace kae",
    ]


SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "forge", "key": "token"}}}


@pytest.mark.parametrize(
    "pod",
    [
        {"containers": [{"name": "a", "image": "x/a:1", "env": [{"name": "PLAIN", "value": "b"}, SECRET]}]},
        {"initContainers": [{"name": "a", "image": "x/a:1", "env": [SECRET]}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "forge"}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "forge"}}]}}]},
    ],
    ids=["variable", "variable of an init container", "volume", "projected volume"],
)
def test_a_pod_that_reads_a_secret_says_which(pod: dict[str, Any]) -> None:
    assert facts(**pod) == ["reads Secret forge"]


@pytest.mark.parametrize(
    ("text", "refusal", "is_refused"),
    [
        ("hostPath: / rw", "hostPath: /", True),
        ("hostPath: / rw", "hostPath: / rw", True),
        ("hostPath: /", "hostPath: / rw", False),
        ("hostPath: /opt", "hostPath: /", False),
        ("hostPath: /opt/x rw", "hostPath: /opt", False),
        ("pods: device /dev/mem as /dev/x rw", "pods: device /dev/mem", True),
        ("pods: env LD_PRELOAD=/opt/a.so", "pods: env LD_PRELOAD", True),
        ("pods: env LD_PRELOAD=/opt/a.so", "x-driver: pods: env LD_*", True),
        ("pods: env LD_PRELOAD=/opt/a.so", "pods: env LD_PRE", False),
        ("pods: env LD_PRELOAD=/opt/a.so", "y-driver: pods: env LD_PRELOAD", False),
    ],
)
def test_a_refusal_holds_for_all_that_begins_with_it(text: str, refusal: str, is_refused: bool) -> None:
    assert privileges.Listed(program="x-driver", text=text).is_refused(refusal) == is_refused


@pytest.mark.parametrize("name", ["LDAPBASE", "NODE_NAME", "NODE_ENV", "GITHUB_ACTOR", "EF_MODE", "POSTHOST"])
def test_a_variable_that_decides_over_no_program_is_none_of_its_privileges(name: str) -> None:
    container = {"name": "a", "image": "registry.example.com/a:1", "env": [{"name": name, "value": "x"}]}

    assert not any(name in fact for fact in facts(containers=[container]))


def listed_of(**spec: Any) -> privileges.Listed:
    (found,) = privileges.listed([daemon_set(**spec)], [])
    return found


@pytest.mark.parametrize("path", ["/sys", "/sys/", "//sys", "/opt/../sys", "/sys/."])
@pytest.mark.parametrize("refusal", ["hostPath: /sys", "hostPath: /sys/", "hostPath: //sys", "x-*: hostPath: /sys*"])
def test_a_path_is_refused_however_it_is_written(path: str, refusal: str) -> None:
    found = listed_of(volumes=[{"name": "h", "hostPath": {"path": path}}])

    assert (found.text, found.is_refused(refusal)) == ("hostPath: /sys", True)
    assert not found.is_refused("hostPath: /system")


@pytest.mark.parametrize("added", ["SYS_ADMIN", "CAP_SYS_ADMIN", "ALL"])
@pytest.mark.parametrize("refusal", ["SYS_ADMIN", "CAP_SYS_ADMIN", "SYS_*"])
def test_a_capability_is_refused_by_each_of_its_names_and_all_of_them_together(added: str, refusal: str) -> None:
    found = listed_of(**container(securityContext={"capabilities": {"add": [added]}}))

    assert found.is_refused(f"capability: {refusal}")
    assert found.is_refused(f"x-driver: capability: {refusal}")
    assert found.is_refused("capability: NET_ADMIN") == (added == "ALL")


def test_a_path_that_the_api_server_sets_in_pods_is_refused_however_it_is_written() -> None:
    found = privileges.Listed(program="x", text="pods: admission hostPath /sys")

    assert found.is_refused("pods: admission hostPath /opt/../sys/")


@pytest.mark.parametrize("path", ["/var/run/cdi", "/run/cdi"])
@pytest.mark.parametrize("refusal", ["hostPath: /var/run/cdi", "hostPath: /run/cdi", "x-driver: hostPath: /run/*"])
def test_a_path_is_refused_through_a_link_that_usual_systems_have(path: str, refusal: str) -> None:
    found = listed_of(volumes=[{"name": "h", "hostPath": {"path": path}}])

    assert found.is_refused(refusal)
    assert not found.is_refused("hostPath: /var/run/cd")
    assert not found.is_refused("y-driver: hostPath: /run/cdi")


@pytest.mark.parametrize(
    ("text", "refusal", "is_refused"),
    [
        ("hostPath: /sys", "hostPath: /sys/kernel/debug", True),
        ("hostPath: /sys rw", "hostPath: /sys/kernel/*", True),
        ("hostPath: / rw", "hostPath: /etc", False),
        ("hostPath: / rw", "hostPath: /", True),
        ("hostPath: /sys", "hostPath: /sys/kernel/debug rw", False),
        ("hostPath: /sys rw", "hostPath: /sys/kernel/debug rw", True),
        ("hostPath: /sys/kernel/debug", "hostPath: /sys", False),
        ("pods: device /dev/kv*", "pods: device /dev/kvm", True),
        ("pods: device /dev/kf*", "pods: device /dev/kvm", False),
        ("pods: mount /opt", "pods: mount /opt/secret", True),
        ("pods: mount /opt", "hostPath: /opt/secret", False),
        ("pods: admission env LD_PRELOAD", "pods: env LD_PRELOAD", True),
        ("pods: admission env LD_PRELOAD", "pods: env *", True),
        ("pods: admission env A", "pods: env LD_PRELOAD", False),
        ("pods: admission hostPath /run", "pods: mount /run/x", True),
        ("pods: preload /opt/l.so", "pods: env LD_PRELOAD", True),
        ("pods: preload /opt/l.so", "pods: env LD_PRELOAD=*", True),
    ],
)
def test_a_refusal_meets_what_gives_the_same_by_another_way(text: str, refusal: str, *, is_refused: bool) -> None:
    assert privileges.Listed(program="x", text=text).is_refused(refusal) == is_refused


def test_a_path_that_the_kubelet_makes_counts_as_written() -> None:
    path = {"path": "/etc/nologin", "type": "FileOrCreate"}

    assert listed_of(volumes=[{"name": "h", "hostPath": path}]).text == "hostPath: /etc/nologin rw"


def test_a_privileged_container_is_refused_with_any_capability() -> None:
    found = privileges.Listed(program="x", text="privileged: driver")

    assert found.is_refused("capability: SYS_ADMIN")
    assert found.is_refused("capability: ALL")
    assert found.is_refused("privileged: *")
    assert not found.is_refused("capability: SYS_ADMNI")
