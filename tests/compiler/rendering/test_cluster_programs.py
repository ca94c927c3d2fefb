"""NFD and the watcher as their settings say, and what OpenShift admits."""

from typing import Any

import pytest

from compiler.rendering import programs
from tests import builders

WATCHER: dict[str, Any] = {
    "enabled": True,
    "repository": {"url": "https://git.test/inventory.git"},
    "secretName": "git",  # the name of a Secret
}
DIGEST = f"sha256:{'0' * 64}"
NFD = ("nfd/daemonset-nfd-worker.yaml", "nfd/deployment-nfd-gc.yaml", "nfd/deployment-nfd-master.yaml")
DEPLOYMENT = "watcher/deployment-kae-watcher.yaml"

Objects = dict[str, Any]


def compiled(**cluster: Any) -> Objects:
    return builders.objects([builders.policy()], (), builders.cluster(watcher=WATCHER, **cluster))


def pod(data: Any) -> Any:
    return data["spec"]["template"]["spec"]


def test_a_digest_stands_beside_the_tag_of_nfd() -> None:
    mirrors = [{"from": "registry.k8s.io", "to": "r.test"}]

    objects = compiled(nfd={"image": {"tag": "v0.17.1", "digest": DIGEST}}, images={"mirrors": mirrors})

    images = {pod(objects[path])["containers"][0]["image"] for path in NFD}
    assert images == {f"r.test/nfd/node-feature-discovery:v0.17.1@{DIGEST}"}


def test_a_variable_of_the_watcher_is_taken_literally() -> None:
    env = [{"name": "NO_PROXY", "value": "$(HOST)"}, {"name": "EMPTY"}]

    objects = builders.objects((), (), builders.cluster(watcher=WATCHER | {"env": env}))

    home, *others = pod(objects[DEPLOYMENT])["containers"][0]["env"]
    assert home == {"name": "HOME", "value": "/tmp"}  # noqa: S108
    assert others == [{"name": "NO_PROXY", "value": "$$(HOST)"}, {"name": "EMPTY"}]


def test_the_workers_of_nfd_run_on_every_node_whatever_the_selector_of_the_others() -> None:
    objects = compiled(nfd={"nodeSelector": {"matchLabels": {"pool": "infra"}}})

    required = {
        path: pod(objects[path])
        .get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution")
        for path in NFD
    }
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["infra"]}]}
    assert required == {NFD[0]: None, NFD[1]: {"nodeSelectorTerms": [term]}, NFD[2]: {"nodeSelectorTerms": [term]}}


def test_a_watcher_of_a_cron_job_has_no_target_and_no_alert() -> None:
    objects = builders.objects(
        (), (), builders.cluster(watcher=WATCHER | {"mode": "CronJob"}, monitoring={"enabled": True})
    )

    assert "watcher/cronjob-kae-watcher.yaml" in objects
    assert "monitoring/podmonitor-kae.yaml" not in objects
    groups = objects["monitoring/prometheusrule-kae.yaml"]["spec"]["groups"]
    assert "kae-watcher" not in {group["name"] for group in groups}


def uses(objects: Objects) -> dict[str, str]:
    """The security context constraints of each ServiceAccount that may use some of its own."""
    result = {}
    for data in objects.values():
        if data["kind"] == "RoleBinding" and data["metadata"]["name"].endswith(("-constraints", "-privileged")):
            role = data["roleRef"]["name"]
            if data["roleRef"]["kind"] == "Role":
                (rule,) = objects[f"openshift/role-{role}.yaml"]["rules"]
                assert (rule["verbs"], rule["resources"]) == (["use"], ["securitycontextconstraints"])
                (role,) = rule["resourceNames"]
            result.update({subject["name"]: role for subject in data["subjects"]})
    return result


def test_on_openshift_node_programs_alone_may_use_more_than_the_platform_gives_all() -> None:
    assert uses(compiled(platform="openshift")) == {
        **dict.fromkeys(("kae-driver", "kae-driver-tls"), "system:openshift:scc:privileged"),
        "kae-device-plugin": "kae-device-plugin",
        "nfd-worker": "kae-nfd-worker",
    }


@pytest.mark.parametrize(
    ("policy", "nfd", "accounts"),
    [
        ({"driver": {"enabled": False}}, False, {"kae-device-plugin"}),
        ({"devicePlugin": {"enabled": False}}, False, {"kae-driver", "kae-driver-tls"}),
        (None, True, {"nfd-worker"}),
        (None, False, set()),
    ],
)
def test_a_program_that_is_absent_may_use_nothing(policy: dict[str, Any] | None, nfd: bool, accounts: set[str]) -> None:
    policies = [] if policy is None else [builders.policy(**policy)]

    objects = builders.objects(policies, (), builders.cluster(platform="openshift", nfd={"enabled": nfd}))

    assert set(uses(objects)) == accounts


@pytest.mark.parametrize(
    ("pod", "container", "is_more"),
    [
        ({}, {}, False),
        ({}, {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}, False),
        ({}, {"ports": [{"containerPort": 80}]}, False),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, {}, False),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/opt/v"}}]}, {}, True),
        ({"hostNetwork": True}, {}, True),
        ({"securityContext": {"runAsUser": 0}}, {}, True),
        ({}, {"securityContext": {"privileged": True}}, True),
        ({}, {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}, True),
        ({}, {"securityContext": {"seLinuxOptions": {"type": "container_device_plugin_t"}}}, True),
        ({}, {"ports": [{"containerPort": 80, "hostPort": 80}]}, True),
    ],
)
def test_a_vendors_program_is_privileged_on_openshift_only_where_it_asks_for_more(
    pod: dict[str, Any], container: dict[str, Any], is_more: bool
) -> None:
    stated = {"pod": {**pod, "containers": [{"name": "a", "image": "a", **container}]}}
    waiting = {**stated, "after": "driver"}

    assert (programs.asks_for_more(stated), programs.asks_for_more(waiting)) == (is_more, True)


def test_a_vendors_program_that_needs_the_node_may_use_it_on_openshift() -> None:
    containers = [{"name": "a", "image": "plugin"}]
    pods = {"plain": {}, "mounting": {"volumes": [{"name": "v", "hostPath": {"path": "/opt/v"}}]}}
    recipe = builders.recipe(
        "net",
        match={"all": {}},
        images={"plugin": {"repository": "r.example", "image": "p", "version": "1"}},
        programs=[{"name": name, "pod": {**pod, "containers": containers}} for name, pod in pods.items()],
    )
    where = builders.cluster(platform="openshift", nfd={"enabled": False})

    objects = builders.objects([builders.device_policy("lab", recipe)], (), where)

    assert uses(objects) == {"net-mounting": "system:openshift:scc:privileged"}


def admitted(constraints: Any, spec: Any) -> bool:
    """Return whether constraints admit a pod, as SCC admission judges what our pods have."""
    (container,) = spec["containers"]
    own = {**spec.get("securityContext", {}), **container["securityContext"]}
    kinds = {next(key for key in volume if key != "name") for volume in spec.get("volumes", ())}
    kinds |= {"projected"} if spec["automountServiceAccountToken"] else set()
    is_root = own.get("runAsUser") == 0
    return all(
        (
            not spec.get("hostPID") and not spec.get("hostNetwork") and not spec.get("hostIPC"),
            not own.get("privileged") and own["allowPrivilegeEscalation"] is False,
            own["capabilities"] == {"drop": constraints["requiredDropCapabilities"]},
            own["readOnlyRootFilesystem"] or not constraints["readOnlyRootFilesystem"],
            own["seccompProfile"] == {"type": "RuntimeDefault"},
            constraints["seccompProfiles"] == ["runtime/default"],
            kinds <= set(constraints["volumes"]),
            constraints["runAsUser"]["type"] == "RunAsAny" or not is_root,
            constraints["seLinuxContext"]["type"] == "RunAsAny" or "seLinuxOptions" not in own,
        )
    )


RESTRICTED = {
    "requiredDropCapabilities": ["ALL"],
    "readOnlyRootFilesystem": False,
    "seccompProfiles": ["runtime/default"],
    "volumes": [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ],
    "runAsUser": {"type": "MustRunAsRange"},
    "seLinuxContext": {"type": "MustRunAs"},
}
"""OpenShift's restricted-v2, which every account may use."""


@pytest.mark.parametrize(
    ("path", "constraints"),
    [
        ("device-plugin/daemonset-kae-device-plugin-tls.yaml", "kae-device-plugin"),
        ("nfd/daemonset-nfd-worker.yaml", "kae-nfd-worker"),
    ],
)
def test_the_constraints_of_a_program_admit_its_pods_and_those_of_all_do_not(path: str, constraints: str) -> None:
    objects = compiled(platform="openshift")

    assert admitted(objects[f"openshift/securitycontextconstraints-{constraints}.yaml"], pod(objects[path]))
    assert not admitted(RESTRICTED, pod(objects[path]))


@pytest.mark.parametrize("path", [DEPLOYMENT, NFD[1], NFD[2]])
def test_the_constraints_of_all_admit_programs_whose_user_the_platform_chooses(path: str) -> None:
    spec = pod(compiled(platform="openshift")[path])

    assert admitted(RESTRICTED, spec)
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(spec["securityContext"])


def test_a_worker_of_nfd_may_not_be_root_on_openshift() -> None:
    objects = compiled(platform="openshift")

    worker = objects["openshift/securitycontextconstraints-kae-nfd-worker.yaml"]
    assert not admitted(worker, pod(objects["device-plugin/daemonset-kae-device-plugin-tls.yaml"]))


@pytest.mark.parametrize("name", ["kae-device-plugin", "kae-nfd-worker"])
def test_constraints_of_ours_allow_nothing_of_the_host_but_paths(name: str) -> None:
    data = compiled(platform="openshift")[f"openshift/securitycontextconstraints-{name}.yaml"]

    assert {key for key, value in data.items() if key.startswith("allow") and value} == {"allowHostDirVolumePlugin"}
    assert (data["users"], data["groups"], data["defaultAddCapabilities"]) == ([], [], [])


@pytest.mark.parametrize(
    ("source", "quiet", "sees"),
    [
        ({"prebuilt": {}}, True, False),
        ({"inTree": {}}, True, False),
        # dnf of the host takes a lock as left behind whose number /proc does not have.
        ({"packages": {"names": ["kae"], "repositories": ["https://r.test/kae"]}}, True, True),
        ({"build": {}}, True, True),
        ({"prebuilt": {}}, False, True),
    ],
)
def test_an_installer_that_ends_sees_the_processes_of_the_host_only_for_its_dnf(
    source: dict[str, Any], quiet: bool, sees: bool
) -> None:
    cluster = builders.cluster(kubernetesVersion="1.36" if quiet else "1.35")

    objects = builders.objects([builders.policy(driver={"version": "2.0.1", "source": source})], (), cluster)

    (workload,) = (data for path, data in objects.items() if path.startswith("driver/daemonset-"))
    assert (pod(workload).get("hostPID", False), pod(workload)["containers"][0]["name"] == "pause") == (sees, quiet)
