"""Which objects a cluster gets, and what decides about each."""

import re
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from compiler.fleet import definitions
from tests import builders, effort

DRIVER = "driver/daemonset-kae-driver-tls.yaml"
PLUGIN = "device-plugin/daemonset-kae-device-plugin-tls.yaml"
ROLE = "driver/role-kae-driver.yaml"
CLUSTER_ROLE = "driver/clusterrole-kae-driver.yaml"
WORKER = "nfd/daemonset-nfd-worker.yaml"
WATCHER = {
    "enabled": True,
    "repository": {"url": "https://git.test/inventory.git"},
    "secretName": "git",  # the name of a Secret
}

Objects = dict[str, Any]


def compiled(*policies: definitions.Policy, **cluster: Any) -> Objects:
    return builders.objects(policies, (), builders.cluster(**cluster))


def pod(objects: Objects, path: str) -> Any:
    return objects[path]["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("policy", "cluster", "components"),
    [
        (None, {}, {"namespace", "crds", "nfd", "node-feature-rule"}),
        (None, {"namespaceManaged": False}, {"crds", "nfd", "node-feature-rule"}),
        (None, {"nfd": {"enabled": False}}, {"namespace"}),
        (None, {"nfd": {"enabled": False, "nodefeaturerules": True}}, {"namespace", "node-feature-rule"}),
        (None, {"watcher": WATCHER}, {"namespace", "crds", "nfd", "node-feature-rule", "watcher"}),
        (None, {"monitoring": {"enabled": True}}, {"namespace", "crds", "nfd", "node-feature-rule", "monitoring"}),
        ({}, {"nfd": {"enabled": False}}, {"namespace", "driver", "device-plugin", "guard"}),
        ({"driver": {"enabled": False}}, {"nfd": {"enabled": False}}, {"namespace", "device-plugin"}),
        ({"devicePlugin": {"enabled": False}}, {"nfd": {"enabled": False}}, {"namespace", "driver", "guard"}),
        (
            {"driver": {"drain": {"enabled": False}}},
            {"nfd": {"enabled": False}},
            {"namespace", "driver", "device-plugin"},
        ),
    ],
)
def test_a_cluster_has_the_components_that_it_needs(
    policy: dict[str, Any] | None, cluster: dict[str, Any], components: set[str]
) -> None:
    policies = [] if policy is None else [builders.policy(**policy)]

    assert builders.components(compiled(*policies, **cluster)) == components


@pytest.mark.parametrize(("version", "guarded"), [("1.29", False), ("1.30", True), ("v1.31.4", True), (None, True)])
def test_the_guard_needs_an_api_that_can_tell_the_node_of_a_token(version: str | None, guarded: bool) -> None:
    policy = builders.policy("tls", driver={"drain": {"enabled": True}})

    objects = compiled(policy, **({"kubernetesVersion": version} if version else {}))

    assert ("guard" in builders.components(objects)) is guarded
    assert CLUSTER_ROLE in objects


@pytest.mark.parametrize("kubelet", ["v1.24.17", "v1.26.15", "v1.29.9", "v1.31.4", ""])
def test_no_kubelet_takes_the_guard_away(kubelet: str) -> None:
    old = builders.kubernetes_node("old")
    old["status"]["nodeInfo"]["kubeletVersion"] = kubelet
    policy = builders.policy("tls", driver={"drain": {"enabled": True}})

    planned, _ = builders.view([policy], builders.reduced(old).nodes)

    assert "guard" in builders.components(dict(builders.compiled(planned).files))


def test_a_right_to_evict_comes_with_the_first_policy_that_drains() -> None:
    quiet = builders.policy("a", nodeSelector={"matchLabels": {"pool": "a"}}, driver={"drain": {"enabled": False}})
    drains = builders.selecting("b", pool="b")

    assert CLUSTER_ROLE not in compiled(quiet)
    assert CLUSTER_ROLE in compiled(quiet, drains)


def test_the_leases_of_no_two_policies_are_the_same() -> None:
    one = builders.policy("a", nodeSelector={"matchLabels": {"pool": "a"}}, driver={"rollout": {"maxParallel": 12}})
    other = builders.policy("a-1", nodeSelector={"matchLabels": {"pool": "b"}}, driver={"rollout": {"maxParallel": 2}})

    (names,) = (rule["resourceNames"] for rule in compiled(one, other)[ROLE]["rules"] if "update" in rule["verbs"])

    assert len(set(names)) == len(names) == 14


def test_a_policy_that_cleans_up_has_a_role_whose_names_stay_when_it_goes() -> None:
    cleans = builders.policy("a", nodeSelector={"matchLabels": {"pool": "a"}}, driver={"enabledCleanup": True})
    objects = compiled(cleans, builders.selecting("b", pool="b"))

    rights = {
        "kae-driver-a": [["kae-driver-a-1", "kae-driver-b-1"], ["kae-driver-a"]],
        "kae-driver-b": [["kae-driver-a-1", "kae-driver-b-1"]],
        "kae-driver": [["kae-driver-a-1", "kae-driver-b-1"], ["kae-driver-a"]],  # Of pods from before.
    }
    for name, named in rights.items():
        role, binding = (objects[f"driver/{kind}-{name}.yaml"] for kind in ("role", "rolebinding"))
        # Only an installer that cleans up asks for its DaemonSet.
        assert [rule["resourceNames"] for rule in role["rules"] if rule["verbs"] != ["create"]] == named
        assert binding["roleRef"]["name"] == role["metadata"]["name"] == name
        assert binding["subjects"][0]["name"] == name
    for name, accounts in (("kae-driver", ["kae-driver", "kae-driver-b"]), ("kae-driver-a", ["kae-driver-a"])):
        binding = objects[f"driver/clusterrolebinding-{name}.yaml"]
        assert [subject["name"] for subject in binding["subjects"]] == accounts
        assert binding["roleRef"]["name"] == "kae-driver"


def test_workers_of_nfd_tolerate_what_any_policy_tolerates() -> None:
    own = {"key": "own", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    theirs = {"key": "dedicated", "value": "tls", "effect": "NoSchedule"}
    tolerations = {"tolerations": [theirs]}
    policies = [
        builders.policy("a", nodeSelector={"matchLabels": {"pool": "a"}}, daemonSets=tolerations),
        builders.policy("b", nodeSelector={"matchLabels": {"pool": "b"}}, daemonSets=tolerations),
    ]

    objects = compiled(*policies, nfd={"tolerations": [own]})

    written = theirs | {"operator": "Equal"}
    assert pod(objects, WORKER)["tolerations"] == [own, written]
    for name in ("master", "gc"):
        others = pod(objects, f"nfd/deployment-nfd-{name}.yaml")["tolerations"]
        assert own in others
        assert written not in others


def test_each_program_of_nfd_has_the_priority_that_the_cluster_names() -> None:
    paths = {"worker": WORKER, "master": "nfd/deployment-nfd-master.yaml"}

    objects = compiled(builders.policy("tls"), nfd={name: {"priorityClassName": f"of-{name}"} for name in paths})

    assert {name: pod(objects, path)["priorityClassName"] for name, path in paths.items()} == {
        "worker": "of-worker",
        "master": "of-master",
    }


def test_a_pod_template_names_no_node_and_no_fact_of_one() -> None:
    policy = builders.selecting("tls", pool="tls")
    nodes = [builders.node("kp920-77", {"pool": "tls"}), builders.node("x86", machine=builders.profile({}))]

    files = builders.files([policy], nodes)

    for words in ("kp920-77", "x86", "oe2203sp4", "LTS-SP4"):
        assert not [path for path, text in files.items() if words in text]


def test_other_nodes_compile_to_the_same_bytes() -> None:
    policies = [builders.selecting("tls", pool="tls"), builders.policy("rest", default=True)]
    some = [builders.node("a", {"pool": "tls"})]
    others = [builders.node("b"), builders.node("c", {"zone": "1"}, builders.profile({}, discovered=False))]

    assert builders.files(policies, some) == builders.files(policies, others)


def test_a_new_driver_counts_after_the_seconds_that_the_policy_says() -> None:
    policy = builders.policy("tls", driver={"rollout": {"minReadySeconds": 7}})

    assert compiled(policy)[DRIVER]["spec"]["minReadySeconds"] == 7


def test_both_programs_look_for_the_kubelet_where_the_policy_says() -> None:
    objects = compiled(builders.policy("tls", kubeletDir="/var/snap/microk8s/common/var/lib/kubelet"))

    for path in (DRIVER, PLUGIN):
        (container,) = pod(objects, path)["containers"]
        assert container["args"] == ["--kubelet-dir", "/var/snap/microk8s/common/var/lib/kubelet"]


def expanded(value: str) -> str:
    """Return what a container gets of a value in a manifest, if each variable is set to its name in capitals.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables: $$ is reduced
    to $, and $(NAME) is replaced unless its $ is escaped.
    """
    return re.sub(r"\$(\$|\(([^)]*)\))", lambda match: match[2].upper() if match[2] is not None else "$", value)


@hypothesis.settings(max_examples=effort.examples(gate=10, long=100))
@hypothesis.given(strategies.text(alphabet="$()aé ", max_size=12))
@hypothesis.example("$(NODE_NAME)")
@hypothesis.example("$$(NODE_NAME)$")
def test_a_value_in_the_environment_is_what_the_policy_says(value: str) -> None:
    objects = compiled(builders.policy("tls", driver={"env": [{"name": "TEXT", "value": value}]}))

    (container,) = pod(objects, DRIVER)["containers"]
    written = next(variable for variable in container["env"] if variable["name"] == "TEXT")
    assert expanded(written.get("value", "")) == value


def test_monitoring_scrapes_what_serves_metrics() -> None:
    policy = builders.policy("tls", driver={"metrics": {"enabled": True}})
    monitoring = {"enabled": True}

    assert "monitoring/podmonitor-kae.yaml" not in compiled(builders.policy(), monitoring=monitoring)
    assert "monitoring/podmonitor-kae.yaml" in compiled(policy, monitoring=monitoring)
    assert "monitoring/podmonitor-kae.yaml" in compiled(watcher=WATCHER, monitoring=monitoring)
