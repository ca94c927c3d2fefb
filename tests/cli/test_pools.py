"""Pools on the command line: which node is in which pool and why, which images CI has to build, and new kernels."""

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests import builders, in_process, project
from tests.cli import fleet
from tests.cli.answers import refused, told

OLD, NEW, UNKNOWN = "5.10.0-216.oe2203sp4.aarch64", "6.6.0-28.oe2403.aarch64", "4.19.90-2112.el7.aarch64"
POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: tls
spec:
  nodeSelector: {matchLabels: {pool: tls}}
  driver:
    version: 2.2.0
    kernelMappings:
      - name: oe2203
        regexp: oe2203
      - name: oe2403
        regexp: oe2403
        version: 2.2.0-${KERNEL_FULL_VERSION}
        source: {prebuilt: {}}
    rollout:
      waves:
        - {name: canary, percent: 10, version: 2.3.0, clusters: [east]}
        - {name: chosen, inventorySelector: {matchLabels: {zone: b}}, version: 2.3.0, clusters: [east]}
      frozen:
        - {name: sick, nodes: [node-07], version: 2.1.0, clusters: [east]}
  devicePlugin: {version: 1.4.1}
---
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: plain
spec:
  clusters: [west]
  nodeSelector: {matchLabels: {pool: plain}}
  driver: {version: 2.2.0, source: {inTree: {}}}
  devicePlugin: {version: 1.4.1}
---
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata: {name: east}
spec: {nfd: {enabled: true}}
---
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata: {name: west}
spec: {nfd: {enabled: true}}
"""


def _node(number: int) -> dict[str, Any]:
    labels = {**builders.HPRE, "pool": "tls", "zone": "b" if number == 5 else "a"}
    node = builders.kubernetes_node(f"node-{number:02}", labels)
    node["status"]["nodeInfo"]["kernelVersion"] = (OLD, NEW, OLD, OLD, UNKNOWN)[number % 5]
    return node


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet with every sort of group and mapping, and a cluster in which no group holds."""
    nodes = tuple(_node(number) for number in range(12))
    texts = {"policies/all.yaml": POLICY, "inventory/east.json": fleet.listed(nodes)}
    return project.write(tmp_path_factory.mktemp("pools"), texts)


def test_the_plan_counts_pools_and_names_the_images_to_build(folder: Path, snapshot: SnapshotAssertion) -> None:
    assert told(folder, "plan", "--cluster", "east") == snapshot


def test_programs_get_pools_and_images_too(folder: Path) -> None:
    (east,) = json.loads(told(folder, "plan", "--cluster", "east", "-o", "json"))["clusters"]

    by_pool = {pool["pool"]: pool["nodes"] for pool in east["pools"]}
    assert sum(by_pool.values()) == sum(node["pool"] is not None for node in east["nodes"])
    assert by_pool["sick--oe2203"] == 1
    assert {image["kernel"] for image in east["images"]} == {NEW}
    assert {image["image"].rpartition(":")[2] for image in east["images"]} == {f"2.2.0-{NEW}", "2.3.0", "2.1.0"}


@pytest.mark.parametrize("name", ["node-03", "node-04", "node-05", "node-07", "node-06"])
def test_the_pool_of_a_node_is_explained(name: str, folder: Path, snapshot: SnapshotAssertion) -> None:
    assert told(folder, "explain", name) == snapshot


def test_a_node_that_was_drafted_into_a_wave_is_told_why(tmp_path: Path) -> None:
    policy = POLICY.replace("percent: 10", "percent: 5")
    project.write(tmp_path, {"policies/all.yaml": policy, "inventory/east.json": fleet.listed((_node(3),))})

    said = "no node below 5 % gets a driver, so the lowest one that does is drafted: this one, at 8.87 %\n"
    assert f"  group 'canary': {said}" in in_process.kae(tmp_path, "explain", "node-03").out


def test_programs_get_the_reasons_of_a_pool(folder: Path) -> None:
    pool = json.loads(told(folder, "explain", "node-07", "-o", "json"))["pool"]

    assert (pool["name"], pool["label"]) == ("sick--oe2203", "openfuyao.com/kae.pool.tls")
    assert pool["reasons"] == ["group 'sick': the group names it", f"mapping 'oe2203': its kernel '{OLD}' matches"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--kernel", OLD), 0, "yes  tls: mapping 'oe2203' takes it"),
        (("--kernel", NEW), 0, "yes  tls: mapping 'oe2403' takes it, with an image of its own\n"),
        (("--kernel", "6.6.1.oe2403"), 0, "once a compile finds it in the inventory"),
        (("--kernel", UNKNOWN), 0, "no   tls: no mapping covers it"),
        (("--kernel", UNKNOWN), 0, "yes  plain: it has no kernelMappings: one driver for every kernel"),
        (("--kernel", UNKNOWN, "--cluster", "east"), 1, "No policy would serve a node with this kernel."),
        (("--kernel", NEW, "--cluster", "east"), 0, f"has to hold the modules, below /opt/lib/modules/{NEW}/."),
        (("--kernel", f"{NEW}+", "--cluster", "east"), 0, f"kae-driver-installer:2.2.0-{NEW} (prebuilt)"),
        (("--kernel", OLD, "--os", "Debian 13"), 0, "KAE's driver is not known to support 'Debian 13'."),
        (("--kernel", "5.11.0.oe2203"), 0, "not known to support the kernel '5.11.0.oe2203'"),
    ],
)
def test_a_kernel_of_no_node_is_answered_for(arguments: tuple[str, ...], code: int, words: str, folder: Path) -> None:
    answer = in_process.kae(folder, "preflight", *arguments)

    assert (answer.code, answer.err) == (code, "")
    assert words in answer.out


def test_modules_of_the_kernel_itself_need_no_support_by_kaes_driver(tmp_path: Path) -> None:
    spec = {"driver": {"source": {"inTree": {}}, "version": "2.2.0"}, "devicePlugin": {"version": "1.4.1"}}
    policy = json.dumps(builders.raw("KAEPolicy", "own", spec))
    project.write(tmp_path, {"policies/own.json": policy, "inventory/east.json": fleet.listed((_node(3),))})

    answer = in_process.kae(tmp_path, "preflight", "--kernel", "5.11.0.oe2203", "--os", "Debian 13")

    assert "not known to support" not in answer.out
    assert "own" in answer.out


@pytest.mark.parametrize("kernel", ["", " ", "5.10 0", "x" * 64])
def test_preflight_takes_only_what_can_be_a_kernel(folder: Path, kernel: str) -> None:
    said = refused(2, folder, "preflight", "--kernel", kernel)

    assert "is not a kernel's full version; use the output of `uname -r`." in said


def test_preflight_tells_programs_which_image_each_pool_would_take(folder: Path) -> None:
    read = json.loads(told(folder, "preflight", "--kernel", NEW, "--cluster", "east", "-o", "json"))

    (policy,) = read["clusters"][0]["policies"]
    assert (read["served"], policy["policy"], policy["mapping"]) == (True, "tls", "oe2403")
    tags = {pool["pool"].partition("--")[0]: pool["image"].rpartition(":")[2] for pool in policy["pools"]}
    assert tags == {"sick": "2.1.0", "canary": "2.3.0", "chosen": "2.3.0", "rest": f"2.2.0-{NEW}"}
    assert {pool["source"] for pool in policy["pools"]} == {"prebuilt"}


def test_preflight_foretells_what_compile_makes_once_a_node_runs_the_kernel(folder: Path, tmp_path: Path) -> None:
    kernel = "6.6.0-99.oe2403sp2.aarch64"
    said = json.loads(in_process.kae(folder, "preflight", "--kernel", kernel, "-o", "json").out)
    node = _node(1)
    node["status"]["nodeInfo"]["kernelVersion"] = kernel
    grown = project.write(tmp_path, {"policies/all.yaml": POLICY, "inventory/east.json": fleet.listed((node,))})

    planned = json.loads(in_process.kae(grown, "plan", "--cluster", "east", "-o", "json").out)

    east = next(cluster for cluster in said["clusters"] if cluster["name"] == "east")
    foretold = {pool["pool"]: pool["image"] for pool in east["policies"][0]["pools"]}
    (row,) = planned["clusters"][0]["nodes"]
    assert foretold[row["pool"]] == row["driver"]
