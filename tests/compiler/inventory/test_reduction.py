"""Nodes are reduced to the facts that matter to a compile, in one canonical text."""

import gc
import hashlib
import itertools
import json
import weakref
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.checks import inventory
from compiler.inventory import canonical_form, reduction, snapshot
from tests import builders, effort

HOSTNAME = "kubernetes.io/hostname"
DRIVER = {"openfuyao.com/kae.driver-version": "2.3.0", "openfuyao.com/onload.driver-state": "Ready"}
LASTING = {"key": "dedicated", "value": "tls", "effect": "NoSchedule"}


def reread(nodes: snapshot.Inventory) -> snapshot.Inventory:
    return canonical_form.of_document(nodes.file, json.loads(canonical_form.text(nodes)))


def only(**parts: Any) -> snapshot.Node:
    (node,) = builders.reduced(builders.kubernetes_node(**parts)).nodes
    return node


@pytest.mark.parametrize(
    "key",
    [
        *("feature.node.kubernetes.io/cpu-model.id", "vendor.feature.node.kubernetes.io/x"),
        *("vendor.profile.node.kubernetes.io/x", "beta.kubernetes.io/arch", "kubernetes.io/arch"),
        *("kubernetes.io/os", "node.kubernetes.io/instance-type", "openfuyao.com/kae.present"),
        *("openfuyao.com/kae.hpre.pf", "openfuyao.com/simple-kmod.present"),
        *("openfuyao.com/onload.sfc.present", "openfuyao.com/onload.sfc.pf", "openfuyao.com/onload.sfc.vf"),
    ],
)
def test_a_label_that_follows_from_the_machine_stands_in_the_profile(key: str) -> None:
    node = only(labels={key: "1"})

    assert dict(node.profile.labels) == {key: "1"}
    assert dict(node.labels) == {}


@pytest.mark.parametrize(
    "key",
    [
        *("pool", "node-role.kubernetes.io/worker", "topology.kubernetes.io/zone"),
        *("openfuyao.com/kae.deploy.driver", "openfuyao.com/kae.deploy.device-plugin"),
        *("openfuyao.com/onload.deploy.driver", "openfuyao.com/onload.deploy.device-plugin"),
        *("openfuyao.com/onload.pf", "openfuyao.com/npu.present", "openfuyao.com/team"),
        *("openfuyao.com/kae.deploy.drvier", "openfuyao.com/kae.depoly.driver"),
        *("openfuyao.com/kae.driver-version", "openfuyao.com/onload.driver-state"),
        *("example.com/onload.present", "myfeature.node.kubernetes.io/x", "alpha-beta.kubernetes.io/arch"),
    ],
)
def test_a_label_of_people_and_clouds_stands_on_the_nodes_line(key: str) -> None:
    node = only(labels={key: "1"})

    assert dict(node.labels) == {key: "1"}
    assert dict(node.profile.labels) == {}


def test_alike_nodes_share_a_profile_however_people_labelled_them() -> None:
    reduced = builders.reduced(
        builders.kubernetes_node("a", builders.HPRE | {"pool": "tls"}),
        builders.kubernetes_node("b", builders.HPRE | {"pool": "web"}),
        builders.kubernetes_node("c", {}),
    )

    a, b, c = (node.profile for node in reduced.nodes)
    assert a is b
    assert a != c


def test_nodes_that_are_reduced_one_by_one_share_what_they_have_in_common() -> None:
    reducer = reduction.Reducer()

    a = reducer.node(builders.kubernetes_node("a", builders.HPRE | {"pool": "tls"}))
    b = reducer.node(json.loads(json.dumps(builders.kubernetes_node("b", builders.HPRE | {"pool": "tls"}))))

    assert a.profile is b.profile
    assert a.labels["pool"] is b.labels["pool"]
    assert next(iter(a.labels)) is next(iter(b.labels))


def test_a_profile_is_forgotten_with_the_last_node_that_has_it() -> None:
    reducer = reduction.Reducer()
    a, b = (reducer.node(builders.kubernetes_node(name)) for name in "ab")
    profile = weakref.ref(a.profile)

    del a
    gc.collect()
    kept = profile()
    del b, kept
    gc.collect()

    assert profile() is None
    assert reducer.node(builders.kubernetes_node("a")).profile.labels == builders.HPRE


def test_what_comes_and_goes_leaves_nothing_behind_in_the_reducer() -> None:
    reducer = reduction.Reducer(ignored=["gone.example.com/*"])

    for number in range(reduction._KEYS + 10):
        reducer.node(builders.kubernetes_node("a", {f"example.com/{number}": "x", "gone.example.com/x": "y"}))

    assert len(reducer._known) < 100
    assert len(reducer._shapes) < 100
    assert len(reducer._profiles) == 0


@pytest.mark.parametrize(
    ("state", "effect"),
    [
        *((state, effect) for state in ("not-ready", "unreachable") for effect in ("NoSchedule", "NoExecute")),
        *((state, "NoSchedule") for state in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")),
    ],
)
def test_taints_that_every_daemonset_tolerates_never_enter(state: str, effect: str) -> None:
    node = only(taints=[{"key": f"node.kubernetes.io/{state}", "effect": effect}, LASTING])

    assert node.profile.taints == (builders.taint("dedicated=tls:NoSchedule"),)


@pytest.mark.parametrize(
    "text",
    [
        "node.kubernetes.io/network-unavailable:NoSchedule",
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
        "node.kubernetes.io/unschedulable:NoExecute",
        "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
        "node.cloudprovider.kubernetes.io/shutdown:NoSchedule",
    ],
)
def test_taints_of_a_nodes_state_that_keep_pods_away_enter(text: str) -> None:
    taint = builders.taint(text)

    node = only(taints=[{"key": taint.key, "value": taint.value, "effect": taint.effect}])

    assert node.profile.taints == (taint,)


def test_the_order_of_taints_makes_no_other_profile() -> None:
    other = {"key": "a", "effect": "NoExecute"}

    reduced = builders.reduced(
        builders.kubernetes_node("a", taints=[LASTING, other]), builders.kubernetes_node("b", taints=[other, LASTING])
    )

    assert reduced.nodes[0].profile is reduced.nodes[1].profile


@pytest.mark.parametrize(
    ("pattern", "key", "stays"),
    [
        ("example.com/*", "example.com/a", False),
        ("example.com/*", "example.org/a", True),
        ("pool", "pool", False),
        ("pool", "pool-2", True),
        ("po?l", "pool", False),
        ("POOL", "pool", True),
    ],
)
def test_ignored_labels_are_named_by_key_or_glob(pattern: str, key: str, stays: bool) -> None:
    reduced = builders.reduced(builders.kubernetes_node(labels={key: "1"}), ignored=[pattern])

    assert (key in reduced.nodes[0].labels) is stays


def test_an_ignored_label_of_the_machine_leaves_the_profile_too() -> None:
    reduced = builders.reduced(
        builders.kubernetes_node(labels={"feature.node.kubernetes.io/volatile": "1"} | builders.HPRE),
        ignored=["feature.node.kubernetes.io/*"],
    )

    assert dict(reduced.nodes[0].profile.labels) == builders.HPRE
    assert reduced.nodes[0].profile.discovered


@pytest.mark.parametrize(
    ("labels", "annotations", "discovered"),
    [
        ({}, {}, False),
        ({"pool": "tls", "openfuyao.com/kae.deploy.driver": "false"}, {}, False),
        ({"openfuyao.com/kae.deploy.drvier": "false"}, {}, False),
        ({"feature.node.kubernetes.io/x": "1"}, {}, True),
        ({"openfuyao.com/kae.present": "true"}, {}, True),
        ({"openfuyao.com/onload.sfc.present": "true"}, {}, True),
        ({"openfuyao.com/onload.pool.desk": "rest"}, {}, True),
        ({"openfuyao.com/onload.deploy.driver": "false", "openfuyao.com/npu.present": "true"}, {}, False),
        ({}, {"nfd.node.kubernetes.io/feature-labels": "cpu-model.id"}, True),
        ({}, {"nfd.node.kubernetes.io/feature-labels": ""}, False),
        (DRIVER, {}, False),
        (DRIVER, {"nfd.node.kubernetes.io/feature-labels": ",".join(DRIVER)}, False),
        (DRIVER, {"nfd.node.kubernetes.io/feature-labels": ",".join(("cpu-model.id", *DRIVER))}, True),
    ],
)
def test_a_node_is_discovered_when_nfd_has_left_a_trace(
    labels: dict[str, str], annotations: dict[str, str], discovered: bool
) -> None:
    item = builders.kubernetes_node(labels=labels)
    item["metadata"]["annotations"] = annotations

    (node,) = builders.reduced(item).nodes

    assert node.profile.discovered is discovered


@pytest.mark.parametrize(
    ("hostname", "written"),
    [("kp920-01", {}), ("other", {"hostname": "other"}), (None, {"hostname": ""}), ("", {"hostname": ""})],
)
def test_the_hostname_is_written_where_it_is_not_the_nodes_name(hostname: str | None, written: dict[str, str]) -> None:
    item = builders.kubernetes_node("kp920-01")
    if hostname is None:
        del item["metadata"]["labels"][HOSTNAME]
    else:
        item["metadata"]["labels"][HOSTNAME] = hostname
    reduced = builders.reduced(item)

    (line,) = json.loads(canonical_form.text(reduced))["spec"]["nodes"]

    assert {key: value for key, value in line.items() if key == "hostname"} == written
    assert reduced.nodes[0].label(HOSTNAME) == (hostname or None)
    assert reread(reduced) == reduced


def test_nodes_without_anything_but_a_name_are_read() -> None:
    reduced = builders.reduced({"metadata": {"name": "bare"}})

    assert reread(reduced) == reduced
    assert reduced.nodes[0].profile.kernel_version == ""


def test_volatile_facts_change_no_byte() -> None:
    one, other = builders.kubernetes_node(), builders.kubernetes_node()
    other["metadata"]["resourceVersion"] = "4712"
    other["status"]["conditions"][0]["lastHeartbeatTime"] = "2024-11-05T03:00:10Z"
    other["status"]["images"] = []
    other["status"]["nodeInfo"]["bootID"] = "another-boot"

    assert canonical_form.text(builders.reduced(one)) == canonical_form.text(builders.reduced(other))


def test_the_canonical_text_has_a_line_for_each_node_and_for_each_profile() -> None:
    reduced = builders.reduced(
        builders.kubernetes_node("b", builders.HPRE | {"pool": "tls"}),
        builders.kubernetes_node("a"),
        builders.kubernetes_node("c", {}),
    )

    lines = canonical_form.text(reduced).splitlines()

    ids = sorted(json.loads(canonical_form.text(reduced))["spec"]["profiles"])
    assert [line.partition('"name":')[2][:3] for line in lines[2:5]] == ['"a"', '"b"', '"c"']
    assert [line[1:9] for line in lines[7:9]] == ids
    assert [lines[1], *lines[5:7], lines[9]] == ['"spec":{"nodes":[', "],", '"profiles":{', "}}}"]


def test_an_empty_inventory_reads_as_one() -> None:
    reduced = builders.reduced()

    assert reread(reduced) == reduced
    assert reduced.nodes == ()


def test_a_profiles_id_follows_from_its_content_alone() -> None:
    alone = builders.reduced(builders.kubernetes_node("a"))
    among = builders.reduced(builders.kubernetes_node("a"), builders.kubernetes_node("z", {}))

    (wanted,) = json.loads(canonical_form.text(alone))["spec"]["profiles"]
    body = next(line for line in canonical_form.text(alone).splitlines() if line.startswith(f'"{wanted}":'))

    assert wanted in json.loads(canonical_form.text(among))["spec"]["profiles"]
    assert wanted == hashlib.sha256(body.partition(":")[2].encode()).hexdigest()[:8]


def colliding(item: Any) -> tuple[str, str]:
    """Two kernel versions with which the profile of a node has the same first 8 hex digits: a birthday search."""
    item["status"]["nodeInfo"]["kernelVersion"] = "KERNEL"
    lines = canonical_form.text(builders.reduced(item)).splitlines()
    before, after = next(line for line in lines if "KERNEL" in line).partition(":")[2].split("KERNEL")
    head = hashlib.sha256(before.encode())
    seen: dict[bytes, str] = {}
    for number in itertools.count():
        kernel = f"5.10.{number}"
        digest = head.copy()
        digest.update(f"{kernel}{after}".encode())
        earlier = seen.setdefault(digest.digest()[:4], kernel)
        if earlier != kernel:
            return earlier, kernel
    raise AssertionError("there are more kernels than digests")


def test_two_profiles_whose_ids_collide_get_two_ids() -> None:
    nodes = [builders.kubernetes_node(f"node-{index}") for index in range(2)]
    for item, kernel in zip(nodes, colliding(builders.kubernetes_node()), strict=True):
        item["status"]["nodeInfo"]["kernelVersion"] = kernel
    reduced = builders.reduced(*nodes)

    assert len(json.loads(canonical_form.text(reduced))["spec"]["profiles"]) == 2
    assert reread(reduced) == reduced
    assert canonical_form.text(builders.reduced(*reversed(nodes))) == canonical_form.text(reduced)


LABELS = st.dictionaries(
    st.sampled_from(
        [
            *("pool", "zone", HOSTNAME, "openfuyao.com/kae.present", "openfuyao.com/kae.deploy.driver"),
            *("feature.node.kubernetes.io/x", "kubernetes.io/arch"),
        ]
    ),
    st.sampled_from(["", "true", "false", "a", "b-1"]),
)
TAINTS: st.SearchStrategy[list[dict[str, str]]] = st.lists(
    st.builds(
        dict,
        key=st.sampled_from(["dedicated", "node.kubernetes.io/not-ready", "gpu"]),
        value=st.sampled_from(["", "a"]),
        effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ),
    max_size=3,
)


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=5))
    nodes = []
    for name in names:
        item = builders.kubernetes_node(name, taints=draw(TAINTS))
        item["metadata"]["labels"] = draw(LABELS)
        nodes.append(item)
    return nodes


@hypothesis.settings(max_examples=effort.examples(gate=16, long=100))
@hypothesis.given(items())
def test_the_canonical_text_holds_the_whole_inventory(nodes: list[dict[str, Any]]) -> None:
    reduced = builders.reduced(*nodes)

    assert reread(reduced) == reduced
    assert canonical_form.text(reread(reduced)) == canonical_form.text(reduced)


@hypothesis.settings(max_examples=effort.examples(gate=15, long=50))
@hypothesis.given(items(), st.randoms(use_true_random=False))
def test_the_canonical_text_does_not_depend_on_the_order_of_nodes(nodes: list[dict[str, Any]], random: Any) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)

    assert canonical_form.text(builders.reduced(*shuffled)) == canonical_form.text(builders.reduced(*nodes))


@hypothesis.settings(max_examples=25)
@hypothesis.given(items())
def test_every_canonical_text_meets_its_schema(nodes: list[dict[str, Any]]) -> None:
    text = canonical_form.text(builders.reduced(*nodes))

    document = builders.document(json.loads(text), "inventory/east.json")

    assert builders.judge().judge(document) == ("NodeInventory", [])
    assert list(inventory.misnamed(document, ())) == []
    assert list(inventory.findings(document)) == []


def test_a_node_that_stands_twice_is_reported_where_it_stands_again() -> None:
    data = {"apiVersion": "v1", "kind": "List", "items": [builders.kubernetes_node("a")] * 2}

    (finding,) = inventory.findings(builders.document(data, "inventory/east.yaml"))

    assert finding.code == "duplicate-node"
    assert finding.span.line > 20


def test_a_profile_that_is_not_there_is_reported() -> None:
    data = builders.raw("NodeInventory", "east", {"nodes": [{"name": "a", "profile": "00000000"}], "profiles": {}})

    (finding,) = inventory.findings(builders.document(data, "inventory/east.json"))

    assert finding.code == "unknown-profile"
