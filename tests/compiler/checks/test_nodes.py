"""Findings about nodes: warnings that name them, and none where all is well."""

from typing import Any

import pytest

from compiler import diagnostics
from compiler.fleet import definitions
from compiler.inventory import snapshot
from tests import builders

OS_LABELS = {"feature.node.kubernetes.io/cpu-model.id": "1"}


def findings(policy: definitions.Policy | None, *nodes: snapshot.Node, **cluster: Any) -> list[diagnostics.Diagnostic]:
    spec = {"kubernetesVersion": "1.31"} | cluster
    return list(builders.view([policy] if policy else [], nodes, builders.cluster(**spec))[1])


def codes(policy: definitions.Policy | None, *nodes: snapshot.Node, **cluster: Any) -> list[str]:
    return builders.codes(findings(policy, *nodes, **cluster))


def machine(**facts: Any) -> snapshot.Node:
    return builders.node(machine=builders.profile(**facts))


def vm(labels: dict[str, str] | None = None) -> snapshot.Node:
    """A virtual machine: virtual functions only."""
    kind = "openfuyao.com/kae.hpre"
    seen = {"openfuyao.com/kae.present": "true", f"{kind}.present": "true", f"{kind}.vf": "2"}
    return builders.node(labels=labels, machine=builders.profile(seen))


def test_a_supported_node_with_a_policy_gives_no_reason_to_say_anything() -> None:
    assert codes(builders.policy(), builders.node()) == []


def test_a_node_with_devices_has_a_policy_and_a_node_without_needs_none() -> None:
    policy = builders.selecting("tls", pool="tls")
    bare = builders.node("x86", machine=builders.profile({"feature.node.kubernetes.io/x": "1"}))

    (diagnostic,) = findings(policy, builders.node("kp920"), bare, builders.node("own", {"pool": "tls"}))

    assert diagnostic.code == "node-without-policy"
    assert "kp920" in diagnostic.message
    assert "x86" not in diagnostic.message


@pytest.mark.parametrize("component", ["driver", "device-plugin"])
def test_an_opt_out_is_said_where_it_keeps_a_component_away(component: str) -> None:
    label = f"openfuyao.com/kae.deploy.{component}"
    field = {"driver": "driver", "device-plugin": "devicePlugin"}[component]

    assert codes(builders.policy(), builders.node(labels={label: "false"})) == ["node-opted-out"]
    assert codes(builders.policy(), builders.node(labels={label: "true"})) == []
    absent: dict[str, Any] = {field: {"enabled": False}}
    assert codes(builders.policy(**absent), builders.node(labels={label: "false"})) == []


def test_an_opt_out_is_no_reason_where_the_node_has_no_device_of_the_policy() -> None:
    policy = builders.policy(operator={"enabledHPRE": False, "enabledZIP": True})

    assert "node-opted-out" not in codes(policy, builders.node(labels={"openfuyao.com/kae.deploy.driver": "false"}))


def test_a_taint_that_nothing_tolerates_is_said_with_its_nodes() -> None:
    tainted = machine(taints=[builders.taint("dedicated=db:NoSchedule")])
    tolerant = builders.policy(daemonSets={"tolerations": [{"key": "dedicated", "operator": "Exists"}]})

    (diagnostic,) = findings(builders.policy(), tainted)

    assert diagnostic.code == "node-untolerated"
    assert "dedicated=db:NoSchedule" in diagnostic.message
    assert codes(tolerant, tainted) == []


def test_a_taint_of_a_node_without_devices_is_nobodys_matter() -> None:
    tainted = machine(labels={"feature.node.kubernetes.io/x": "1"}, taints=[builders.taint("db:NoSchedule")])

    assert codes(builders.policy(), tainted) == []


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"os_image": "openEuler 24.03 (LTS)"}, []),
        ({"os_image": "Ubuntu 22.04.1 LTS"}, ["unsupported-os"]),
        ({"os_image": ""}, ["unsupported-os"]),
        ({"kernel_version": "6.6.0-72.oe2403.aarch64"}, []),
        ({"kernel_version": "4.19.90"}, ["unsupported-kernel"]),
        ({"kernel_version": "5.10.0-60.18.0.50.oe2203.aarch64"}, ["unsupported-kernel"]),
        ({"kernel_version": "5.100.0"}, ["unsupported-kernel"]),
    ],
)
def test_a_driver_is_installed_where_it_is_known_to_work(facts: dict[str, str], code: list[str]) -> None:
    assert codes(builders.policy(), machine(**facts)) == code


@pytest.mark.parametrize("driver", [{"enabled": False}, {"state": "Absent"}, {"source": {"inTree": {}}}])
def test_where_no_driver_of_ours_is_installed_any_system_will_do(driver: dict[str, Any]) -> None:
    assert codes(builders.policy(driver=driver), machine(os_image="Ubuntu 22.04.1 LTS")) == []


def test_virtual_functions_in_a_guest_need_the_guests_own_driver() -> None:
    out = {"openfuyao.com/kae.deploy.driver": "false"}

    assert codes(builders.policy(), vm()) == []
    assert codes(builders.policy(), vm(out)) == ["node-opted-out", "vf-without-driver"]
    assert codes(builders.policy(driver={"state": "Absent"}), vm()) == ["vf-without-driver"]
    assert codes(builders.policy(driver={"enabled": False}), vm()) == []


def test_a_label_that_is_compared_is_an_integer() -> None:
    newer = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
    policy = builders.policy(nodeSelector=newer)

    assert codes(policy, builders.node(labels={"gen": "4"})) == []
    assert "not-an-integer" in codes(policy, builders.node(labels={"gen": "four"}))


@pytest.mark.parametrize(
    ("kubelet", "policy", "stated", "expected"),
    [
        ("v1.29.9", {}, None, ["kubernetes-version-unstated"]),
        ("v1.29.9", {"drain": {"enabled": True}}, None, ["kubernetes-version-unstated"]),
        ("v1.24.17", {}, None, ["kubernetes-too-old", "kubernetes-version-unstated"]),
        ("v1.29.9", {"drain": {"enabled": False}}, None, []),
        ("v1.29.9", {"enabled": False}, None, []),
        ("v1.30.0", {}, None, []),
        ("v1.29.9", {}, "1.30", []),
        ("v1.29.9", {}, "1.29", ["drain-unstated"]),
        ("v1.29.9", {"drain": {"enabled": True}}, "1.29", ["unguarded-eviction"]),
        ("v1.29.9", {"drain": {"enabled": False}}, "1.29", []),
        ("v1.30.1", {}, "1.30", []),
        ("v1.31.4", {}, "1.30", []),
        ("v1.30.0", {"drain": {"enabled": False}}, "1.29", []),
        ("v1.31.4", {"drain": {"enabled": True}}, "1.29", ["kubernetes-version-outdated", "unguarded-eviction"]),
    ],
)
def test_unconfined_evictions_are_agreed_to_by_a_stated_release_and_in_the_policy(
    kubelet: str, policy: dict[str, Any], stated: str | None, expected: list[str]
) -> None:
    item = builders.kubernetes_node()
    item["status"]["nodeInfo"]["kubeletVersion"] = kubelet
    cluster = builders.cluster(**({"kubernetesVersion": stated} if stated else {}))

    _, notes = builders.view([builders.policy(driver=policy)], builders.reduced(item).nodes, cluster)

    assert builders.codes(notes) == expected


@pytest.mark.parametrize(
    ("kubelet", "policy", "stated", "expected"),
    [
        ("v1.36.0", {}, "1.36", []),
        ("v1.35.9", {}, "1.35", []),
        ("v1.35.9", {}, "1.36", ["installer-resident"]),
        ("v1.35.9", {"enabled": False}, "1.36", []),
        ("v1.36.0", {}, None, ["installer-resident"]),
        ("v1.37.1", {}, "1.35", ["installer-resident"]),
        ("v1.36.0", {"enabledCleanup": True}, "1.36", ["installer-resident"]),
    ],
)
def test_an_installer_that_stays_is_said_where_somebody_can_change_that(
    kubelet: str, policy: dict[str, Any], stated: str | None, expected: list[str]
) -> None:
    item = builders.kubernetes_node()
    item["status"]["nodeInfo"]["kubeletVersion"] = kubelet
    cluster = builders.cluster(**({"kubernetesVersion": stated} if stated else {}))

    _, notes = builders.view([builders.policy(driver=policy)], builders.reduced(item).nodes, cluster)

    assert builders.codes(notes) == expected


def test_a_kubelet_that_states_no_version_says_nothing_of_the_release() -> None:
    bare = builders.reduced({"metadata": {"name": "bare", "labels": builders.HPRE}}).nodes

    _, notes = builders.view([builders.policy(driver={"enabled": False})], bare)

    assert builders.codes(notes) == ["kubernetes-version-unknown"]


def test_labels_of_another_nfd_are_told_from_those_of_ours() -> None:
    foreign = builders.node("a", machine=builders.profile(OS_LABELS))
    both = builders.node("b", machine=builders.profile(builders.HPRE | OS_LABELS))

    assert codes(None, foreign) == ["nfd-already-running"]
    assert codes(builders.policy(), foreign, both) == []
    assert codes(None, foreign, nfd={"enabled": False}) == []


def test_a_policy_needs_the_rules_that_label_its_nodes() -> None:
    assert codes(builders.policy(), builders.node(), nfd={"enabled": False}) == ["rules-missing"]
    assert codes(builders.policy(), builders.node(), nfd={"enabled": False, "nodefeaturerules": True}) == []
    assert codes(None, nfd={"enabled": False}) == []


def test_a_policy_with_pools_is_named_where_nothing_tells_its_pools() -> None:
    mappings = [{"name": "old", "regexp": "oe2203"}]
    policy = builders.policy(driver={"version": "2.2.0", "kernelMappings": mappings})

    _, (finding,) = builders.view([policy], [builders.node()], builders.cluster(nfd={"enabled": False}))

    assert finding.notes[-1] == "The pools of policy 'tls' need rules of this compiler."


DRIVER = {"image": "installer", "modules": [{"name": "sfc"}]}
NIC = "openfuyao.com/nic"
CARD = {"vendor": "1924", "kind": "sfc", "classes": ["0200"]}


def nic(name: str = "desk", **spec: Any) -> definitions.Policy:
    return builders.device_policy(name, builders.recipe("nic", match={"pci": [CARD]}, driver=DRIVER), **spec)


def with_card(name: str = "with-card", labels: dict[str, str] | None = None, **facts: Any) -> snapshot.Node:
    """Return a node that has a card, and no device of KAE."""
    return builders.node(
        name, labels, builders.profile({f"{NIC}.present": "true", f"{NIC}.sfc.present": "true"}, **facts)
    )


def test_a_node_with_the_hardware_of_a_recipe_has_a_policy_of_the_recipe() -> None:
    policy = nic(nodeSelector={"matchLabels": {"desk": "lab"}})

    (diagnostic,) = findings(
        policy, with_card(), machine(labels={f"{NIC}.deploy.driver": "true"}), with_card("own", {"desk": "lab"})
    )

    assert diagnostic.code == "node-without-policy"
    assert diagnostic.message == "No policy matches 1 node (with-card) with devices of recipe 'nic'."


def test_a_recipe_for_every_node_is_for_those_that_its_policies_choose() -> None:
    everywhere = builders.device_policy(
        "lab", builders.recipe("kmod", driver=DRIVER), nodeSelector={"matchLabels": {"desk": "lab"}}
    )

    assert codes(everywhere, with_card(), with_card("own", {"desk": "lab"})) == []


def test_a_node_that_is_unknown_may_have_the_hardware_of_a_recipe() -> None:
    (diagnostic,) = findings(nic(), with_card(), machine(labels={}, discovered=False))

    assert diagnostic.code == "node-unknown"
    assert "its devices of recipe 'nic' are unknown and nothing for them runs on it" in diagnostic.notes[0]


def test_a_recipe_that_needs_no_label_of_nfd_knows_every_node() -> None:
    everywhere = builders.recipe("kmod", driver=DRIVER)
    mapped = [{"name": "any", "regexp": "."}]

    assert codes(builders.device_policy("lab", everywhere), machine(labels={}, discovered=False)) == []
    pooled = builders.device_policy("lab", everywhere, kernelMappings=mapped)
    assert codes(pooled, machine(labels={}, discovered=False)) == ["node-unknown"]


@pytest.mark.parametrize(("rules", "code"), [(False, ["rules-missing"]), (True, [])])
def test_the_cards_of_a_recipe_are_found_by_rules(rules: bool, code: list[str]) -> None:
    without = {"enabled": False, "nodefeaturerules": rules}

    assert codes(nic(), with_card(), nfd=without) == code
    assert codes(builders.device_policy("lab", builders.recipe("kmod", driver=DRIVER)), with_card(), nfd=without) == []


def test_a_node_opts_out_of_a_recipe_by_the_label_of_the_recipe() -> None:
    assert codes(nic(), with_card(labels={f"{NIC}.deploy.driver": "false"})) == ["node-opted-out"]
    assert codes(nic(), with_card(labels={"openfuyao.com/kae.deploy.driver": "false"})) == []


def test_a_taint_keeps_a_recipe_away_from_its_nodes() -> None:
    assert codes(nic(), with_card(taints=[builders.taint("dedicated=db:NoSchedule")])) == ["node-untolerated"]
    assert codes(nic(), machine(taints=[builders.taint("dedicated=db:NoSchedule")])) == ["node-without-policy"]


def test_kae_alone_knows_the_systems_that_its_driver_supports() -> None:
    assert codes(nic(), with_card(os_image="Debian GNU/Linux 12", kernel_version="6.1.0-50-cloud-amd64")) == []


def test_a_kernel_that_no_mapping_of_a_recipe_covers_is_told_at_its_mappings() -> None:
    policy = nic(kernelMappings=[{"name": "el8", "regexp": "el8"}])

    (diagnostic,) = findings(policy, with_card())

    assert diagnostic.code == "kernel-not-covered"
    assert diagnostic.span == policy.source.key_span("spec", "kernelMappings")


@pytest.mark.parametrize(
    ("os", "hint"),
    [
        ({}, "Add a mapping for it, or the kernel to its list."),
        (
            {"os": {"id": "rhel"}},
            "Take a new inventory where NFD labels the nodes with their system "
            "(feature.node.kubernetes.io/system-os_release.ID).",
        ),
    ],
)
def test_where_no_mapping_covers_a_program_the_finding_speaks_of_it(os: dict[str, Any], hint: str) -> None:
    program = {"name": "agent", "per": "pool", "pod": {"containers": [{"name": "a", "image": "installer"}]}}
    recipe = builders.recipe("agents", match={"all": {}}, programs=[program])
    policy = builders.device_policy("lab", recipe, kernelMappings=[{"name": "el8", "regexp": "el8", **os}])

    found = [one for one in findings(policy, with_card()) if one.code == "kernel-not-covered"]

    assert [(one.notes, one.hint) for one in found] == [(("No program of a pool runs on such a node.",), hint)]


def test_evictions_of_a_recipe_are_confined_too() -> None:
    assert codes(nic(), with_card(), kubernetesVersion="1.29") == ["kubernetes-version-outdated", "drain-unstated"]


def of_recipe(name: str, policy: str, program: str, **more: Any) -> definitions.Policy:
    images = {"plugin": {"repository": "r.example", "image": "plugin", "version": "1"}}
    pod = {"containers": [{"name": "main", "image": "plugin"}]}
    programs = [{"name": program, "pod": pod, "offers": ["example.com/x"]}]
    spec = {"title": "A vendor", "match": {"all": {}}, "images": images, "programs": programs, **more}
    return builders.device_policy(policy, builders.recipe(name, **spec))


ADDS = {"resources": ["example.com/x"], "mutations": [{"applyConfiguration": "Object{}"}]}


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (of_recipe("a", "p", "b-c"), of_recipe("a-b", "q", "c"), "ServiceAccount 'a-b-c'"),
        (
            of_recipe("a", "p", "x", admission=[{"name": "b-c", **ADDS}]),
            of_recipe("a-b", "q", "y", admission=[{"name": "c", **ADDS}]),
            "MutatingAdmissionPolicy 'kae-a-b-c'",
        ),
    ],
)
def test_two_recipes_make_no_object_of_one_name(
    first: definitions.Policy, second: definitions.Policy, what: str
) -> None:
    found = [
        each.message
        for each in builders.view([first, second], (), builders.cluster(kubernetesVersion="1.36"))[1]
        if each.code == "duplicate-object"
    ]

    assert len(found) == 1
    assert what in found[0]
