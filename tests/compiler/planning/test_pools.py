"""Which pools a policy falls into, by groups and by kernels, and what a cluster gets for each."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from compiler.changes import placement
from compiler.fleet import definitions
from compiler.inventory import snapshot
from compiler.planning import kernels, plan, pools
from tests import builders
from tests.property import nfd_rules

SP4 = "5.10.0-216.0.0.115.oe2203sp4.aarch64"
SP3 = "5.10.0-182.0.0.95.oe2203sp3.aarch64"
OE2403 = "6.6.0-28.0.0.34.oe2403.aarch64"
RULES = "node-feature-rule/nodefeaturerule-kae-pool-tls.yaml"

OLD = {"name": "old", "regexp": "oe2203"}
NEW = {"name": "new", "regexp": "oe2403", "version": "2.3.0"}
LISTED = NEW | {"version": "2.3.0-${KERNEL_FULL_VERSION}", "kernels": [f"{OE2403}+"]}
CANARY = {"name": "canary", "nodes": ["a"], "version": "2.4.0"}
SICK = {"name": "sick", "nodes": ["b"], "version": "2.1.0"}


def hashed(kernel: str) -> str:
    return hashlib.sha256(kernel.encode()).hexdigest()[:8]


def node(name: str, kernel: str = SP4, *, labels: dict[str, str] | None = None, seen: bool = True) -> snapshot.Node:
    return builders.node(name, machine=builders.profile(labels, discovered=seen, kernel_version=kernel))


def policy(
    mappings: Sequence[dict[str, Any]] = (),
    waves: Sequence[dict[str, Any]] = (),
    frozen: Sequence[dict[str, Any]] = (),
    **driver: Any,
) -> definitions.Policy:
    rollout = {"waves": list(waves), "frozen": list(frozen)}
    return builders.policy(driver={"version": "2.2.0", "kernelMappings": list(mappings), "rollout": rollout, **driver})


def divided(item: definitions.Policy, *nodes: snapshot.Node, where: str = "east") -> pools.Division:
    (division,) = builders.view([item], nodes, builders.cluster(where))[0].divisions
    return division


def named(division: pools.Division) -> list[str]:
    return [pool.name for pool in division.pools]


def versions(division: pools.Division) -> dict[str, str]:
    return {pool.name: pool.driver.parts["version"] for pool in division.pools}


def test_a_policy_without_parts_is_one_pool_of_its_name_and_no_label() -> None:
    division = divided(policy(), node("a"))

    assert (named(division), division.label) == (["tls"], None)
    assert division.pool(node("a")) == division.pools[0]


def test_so_is_a_policy_whose_waves_and_frozen_groups_hold_elsewhere() -> None:
    elsewhere = {"clusters": ["west"]}
    item = policy(waves=[CANARY | elsewhere], frozen=[SICK | elsewhere])

    assert named(divided(item, node("a"))) == ["tls"]
    assert named(divided(item, node("a"), where="west")) == ["sick", "canary", "rest"]


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ({"mappings": [OLD, NEW]}, ["old", "new"]),
        ({"waves": [CANARY], "frozen": [SICK]}, ["sick", "canary", "rest"]),
        ({"mappings": [OLD, NEW], "waves": [CANARY]}, ["canary--old", "canary--new", "rest--old", "rest--new"]),
        ({"mappings": [OLD, LISTED]}, ["old", f"new--{hashed(OE2403)}"]),
        ({"mappings": [LISTED], "waves": [CANARY]}, [f"canary--new--{hashed(OE2403)}", f"rest--new--{hashed(OE2403)}"]),
    ],
)
def test_a_pool_is_called_after_its_group_and_its_mapping(parts: dict[str, Any], names: list[str]) -> None:
    division = divided(policy(**parts))

    assert named(division) == names
    assert division.label == "openfuyao.com/kae.pool.tls"


@pytest.mark.parametrize(
    ("where", "kernel", "pool"),
    [
        ("a", SP4, "canary--old"),
        ("b", SP4, "sick--old"),
        ("c", SP3, "rest--old"),
        ("a", OE2403, "canary--new"),
        ("c", f"{OE2403}+", "rest--new"),
        ("a", "4.19.90-2312.oe2003.aarch64", None),
        ("a", "", None),
    ],
)
def test_a_node_has_the_pool_of_its_group_and_its_kernel(where: str, kernel: str, pool: str | None) -> None:
    division = divided(policy([OLD, NEW], [CANARY], [SICK]), node("a"), node("b"), node("c"))

    seen = division.pool(node(where, kernel))

    assert (seen.name if seen else None) == pool


def test_a_node_that_joins_is_in_the_rest() -> None:
    division = divided(policy(waves=[{"name": "all", "percent": 100, "version": "2.4.0"}]), node("a"))

    pool = division.pool(node("z"))

    assert pool is not None and pool.name == "rest"


def test_the_first_mapping_that_matches_a_kernel_has_it() -> None:
    sp4 = {"name": "sp4", "literal": f"{SP4}+", "version": "2.0.0"}
    division = divided(policy([sp4, OLD]))

    taken = [division.kernel_class(kernels.Machine(kernels.cleaned(each))) for each in (SP4, f"{SP4}+", SP3)]

    assert [entry.name if entry else None for entry in taken] == ["sp4", "sp4", "old"]
    assert [entry.unless for entry in division.classes] == [(), (division.classes[0].pattern,)]


def test_why_a_node_has_no_pool_is_told_by_its_kernel() -> None:
    division = divided(policy([OLD, LISTED]))

    assert division.why_not(node("a", "4.19.90")) == "no mapping covers its kernel 4.19.90"
    assert division.why_not(node("a", "")) == "no mapping covers its kernel (unknown)"
    assert division.why_not(node("a", "6.6.1.oe2403")) == "mapping 'new' lists no image for its kernel 6.6.1.oe2403"


def test_why_a_node_has_its_pool_is_told_by_its_group_and_its_mapping() -> None:
    division = divided(policy([OLD], [CANARY]), node("a"))

    assert list(division.reasons(node("a"))) == [
        "group 'canary': the group names it",
        f"mapping 'old': its kernel '{SP4}' matches",
    ]
    assert list(division.reasons(node("a", "4.19")))[1] == "no mapping covers its kernel 4.19"
    assert list(divided(policy()).reasons(node("a"))) == []


def test_without_a_list_there_is_a_pool_for_each_kernel_of_a_node_that_is_served() -> None:
    mapping = {"name": "any", "regexp": "aarch64", "version": "2.3.0-${KERNEL_XYZ}"}
    nodes = (
        node("a", SP4),
        node("b", f"{SP4}+"),
        node("c", OE2403),
        node("plain", SP3, labels={}),
        node("new", "5.4.0.aarch64", seen=False),
        node("x86", "5.10.0.x86_64"),
        node("odd", ""),
    )

    division = divided(policy([mapping]), *nodes)

    assert [entry.kernel for entry in division.classes] == sorted([SP4, OE2403, "5.4.0.aarch64"])
    assert set(versions(division).values()) == {"2.3.0-5.10.0", "2.3.0-6.6.0", "2.3.0-5.4.0"}


def test_of_a_list_every_kernel_has_a_pool_that_the_mapping_takes_and_no_other_has() -> None:
    first = {"name": "first", "regexp": "sp4", "version": "2.1.0"}
    listed = {
        "name": "listed",
        "regexp": "oe2203",
        "kernels": [SP3, SP4, f"{SP3}+", OE2403],
        "image": "a-${KERNEL_XYZ}",
    }

    division = divided(policy([first, listed]), node("a", "5.10.0-60.oe2203.aarch64"))

    assert [(entry.name, entry.kernel) for entry in division.classes] == [
        ("first", None),
        (f"listed--{hashed(SP3)}", SP3),
    ]


def test_a_literal_is_a_list_of_itself() -> None:
    division = divided(policy([{"name": "one", "literal": f"{SP4}+", "version": "${KERNEL_FULL_VERSION}"}]))

    assert versions(division) == {f"one--{hashed(SP4)}": SP4}


def test_a_kernel_without_an_image_goes_to_no_later_mapping() -> None:
    division = divided(policy([LISTED, {"name": "all", "regexp": ".*"}]))

    assert division.kernel_class(kernels.Machine("6.6.1.oe2403")) is None
    assert getattr(division.kernel_class(kernels.Machine(SP4)), "name", None) == "all"


def test_a_wave_whose_image_is_named_after_kernels_makes_every_mapping_one_for_each() -> None:
    division = divided(policy([OLD], [CANARY | {"version": "2.4.0-${KERNEL_XYZ}"}]), node("a", SP4))

    assert versions(division) == {f"canary--old--{hashed(SP4)}": "2.4.0-5.10.0", f"rest--old--{hashed(SP4)}": "2.2.0"}


def test_a_frozen_group_beats_a_wave_a_wave_a_mapping_and_a_mapping_the_policy() -> None:
    bare = {"name": "bare", "regexp": "aarch64"}

    division = divided(policy([NEW, bare], [CANARY, {"name": "later", "nodes": ["c"]}], [SICK]))

    assert versions(division) == {
        "sick--new": "2.1.0",
        "sick--bare": "2.1.0",
        "canary--new": "2.4.0",
        "canary--bare": "2.4.0",
        "later--new": "2.3.0",
        "later--bare": "2.2.0",
        "rest--new": "2.3.0",
        "rest--bare": "2.2.0",
    }


def test_a_policy_without_parts_has_no_rules() -> None:
    assert RULES not in builders.objects([policy()])
    assert RULES not in builders.objects([policy([OLD], enabled=False)])


def test_a_group_without_nodes_has_no_rule() -> None:
    selector = {"matchLabels": {"zone": "lab"}}
    item = policy(waves=[{"name": "lab", "inventorySelector": selector, "version": "2.4.0"}])

    rules = builders.objects([item], [node("a")])[RULES]["spec"]["rules"]

    assert [rule["name"] for rule in rules] == ["tls: group rest", "tls: pool rest"]


def test_two_policies_of_one_name_are_reported_and_keep_their_nodes_apart() -> None:
    ours, theirs = builders.selecting("tls", pool="a"), builders.selecting("tls", pool="b")
    nodes = [builders.node("a", {"pool": "a"}), builders.node("b", {"pool": "b"})]

    view, notes = builders.view([ours, theirs], nodes)

    assert "duplicate-policy" in builders.codes(notes)
    assert [verdict.policy for verdict in view.decisions] == [ours, theirs]


@pytest.mark.parametrize("where", ["east", "west"])
def test_a_wave_that_has_no_node_yet_is_a_group_without_a_pool(where: str) -> None:
    waves = [{"name": "canary", "nodes": [], "clusters": ["east"]}]
    division = divided(policy(waves=waves), node("node-01"), where=where)

    assert named(division) == (["rest"] if where == "east" else ["tls"])
    assert [group.name for group in division.groups] == (["canary", "rest"] if where == "east" else [])


UBUNTU = {"name": "ubuntu", "regexp": "generic", "os": {"id": "ubuntu", "versions": ["22.04"]}, "version": "2.3.0"}
DEBIAN = {"name": "debian", "regexp": "generic", "os": {"id": "debian"}, "version": "2.4.0-${KERNEL_FULL_VERSION}"}
OTHERS = {"name": "others", "regexp": "."}
GENERIC = "6.8.0-45-generic"


def of_system(name: str, system: str = "", version: str = "") -> snapshot.Node:
    stated = {**builders.HPRE, kernels.SYSTEM: system, kernels.VERSION: version}
    return node(name, GENERIC, labels={key: value for key, value in stated.items() if value})


def reported(of: snapshot.Node) -> nfd_rules.Features:
    """The features that NFD's worker reports of a node."""
    system = {"ID": of.label(kernels.SYSTEM), "VERSION_ID": of.label(kernels.VERSION)}
    return nfd_rules.Features(
        attributes={
            "kernel.version": {"full": GENERIC},
            "system.name": {"nodename": of.name},
            "system.osrelease": {name: value for name, value in system.items() if value},
        },
        instances={"pci.device": ({"vendor": "19e5", "device": "a258", "class": "0b40"},)},
    )


def test_nodes_of_one_kernel_are_in_pools_of_their_systems() -> None:
    nodes = [of_system("a", "ubuntu", "22.04"), of_system("b", "ubuntu", "24.04"), of_system("c", "debian", "12")]
    nodes.append(of_system("d"))
    division = divided(policy([UBUNTU, DEBIAN, OTHERS]), *nodes)
    rule = builders.objects([policy([UBUNTU, DEBIAN, OTHERS])], nodes)[RULES]

    own = [division.part(each) for each in division.nodes]

    names = ["ubuntu", "others", f"debian--{hashed(GENERIC)}", "others"]
    assert [part.name if part else None for part in own] == names
    labels = [placement.PoolRules(rule).labels(each) for each in division.nodes]
    assert labels == [{"openfuyao.com/kae.pool.tls": name} for name in names]
    assert [nfd_rules.labels([rule], reported(each)) for each in division.nodes] == labels
    view, _ = builders.view([policy([UBUNTU, DEBIAN, OTHERS])], nodes)
    landed = {name: one.pool.name if one.pool else None for one in view.decisions for name in one.names}
    assert [landed[each.name] for each in nodes] == names
    # The installer tells a kernel of two systems by the system, which is in its config.
    assert [entry.unless for entry in division.classes] == [(), (), ()]


def test_a_node_without_a_mapping_for_its_system_is_told_with_it() -> None:
    left, unknown, taken = of_system("a", "ubuntu", "24.04"), of_system("b"), of_system("c", "ubuntu", "22.04")
    view, found = builders.view([policy([UBUNTU])], [left, unknown, taken])
    (division,) = view.divisions

    assert division.why_not(left) == f"no mapping covers its kernel {GENERIC} on ubuntu 24.04"
    assert division.why_not(unknown) == f"no mapping covers its kernel {GENERIC} on an unknown system"
    assert list(division.kernel_reasons(taken)) == [f"mapping 'ubuntu': its kernel '{GENERIC}' on ubuntu 22.04 matches"]
    told = [one.message for one in found if one.code == "kernel-not-covered"]
    assert told == [
        f"No mapping of policy 'tls' covers the kernel '{GENERIC} on {system}' of 1 node ({name}) of cluster 'east'."
        for system, name in (("an unknown system", "b"), ("ubuntu 24.04", "a"))
    ]


def test_an_inventory_without_the_labels_of_systems_is_told_where_mappings_ask_for_them() -> None:
    found = plan.deciding_labels([policy([UBUNTU, OTHERS])], "east")

    assert {one.key for one in found if one.span is not None} == {kernels.SYSTEM, kernels.VERSION}
