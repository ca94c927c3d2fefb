"""Shipped recipes of several vendors beside KAE before the real DaemonSet controller: QAT, SGX and modules alone."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.control import manifests
from tests.cluster.local import waiting
from tests.cluster.simulated import placements, stages
from tests.property.fleets import machines

NODES = 40
KERNELS = ("5.14.0-427.13.1.el9_4.x86_64", "6.1.0-21-amd64")
QAT = {"vendor": "8086", "device": "4940", "class": "0b40"}
SGX = {
    "cpu.cpuid": {"SGX": "true", "SGXLC": "true"},
    "cpu.security": {"sgx.enabled": "true", "sgx.epc": "8388608000"},
    "kernel.config": {"X86_SGX": ""},
}
RECIPES = [
    yaml.safe_load((manifests.ROOT / f"templates/recipes/{name}/recipe.yaml").read_text())
    for name in ("intel-qat", "intel-sgx", "simple-kmod")
]


@pytest.fixture(scope="module")
def hosts() -> Sequence[machines.Machine]:
    """Machines with any of the accelerators, some without modules that QAT needs, some that keep programs away."""
    draw = random.Random(38)  # noqa: S311 - They are to be the same each time.
    made = []
    for number in range(NODES):
        modules = {name: "" for name in ("intel_qat", "vfio_pci") if number % 7 != 3 or name == "vfio_pci"}
        out = {"openfuyao.com/intel-qat.deploy.plugin": "false"} if number % 13 == 5 else {}
        one = machines.Machine(
            name=f"vendor-{number:02}",
            kernel=draw.choice(KERNELS),
            labels={"kubernetes.io/arch": "arm64" if number % 11 == 7 else "amd64", **out},
            taints=({"key": "dedicated", "value": "x", "effect": "NoSchedule"},) if number % 17 == 4 else (),
            functions={"hpre": (2, 0)} if number % 4 else {},
            others=(QAT, QAT) if number % 3 else (),
            reported=True,
            attributes={"kernel.loadedmodule": modules, **(SGX if number % 2 else {})},
            architecture="arm64" if number % 11 == 7 else "amd64",
        )
        made.append(one)
    return made


def policies(canary: str) -> list[dict[str, Any]]:
    wave = {"name": "canary", "percent": 25}
    qat = {"recipe": "intel-qat", "rollout": {"waves": [{**wave, "images": {"plugin": {"version": canary}}}]}}
    kmod = {"recipe": "simple-kmod", "kernelMappings": [{"name": "el9", "regexp": "el9"}]}
    kae = {"driver": {"version": "2.2.0", "rollout": {"waves": [{**wave, "version": "2.3.0"}]}}}
    return [
        manifests.document("KAEPolicy", "tls", kae),
        manifests.document("DevicePolicy", "crypto", qat),
        manifests.document("DevicePolicy", "enclaves", {"recipe": "intel-sgx"}),
        manifests.document("DevicePolicy", "all", kmod),
    ]


@pytest.fixture
def planned(stage: stages.Stage, tmp_path: Path) -> list[placements.Placement]:
    """The pods of the plan, which are there. A first compile brings the rules that find the devices."""
    stage.apply(manifests.compiled(tmp_path, stage.documents(*policies("0.36.0"), recipes=RECIPES)))
    return stage.follow(tmp_path, *policies("0.36.0"), recipes=RECIPES)[1]


def test_pods_of_vendors_programs_are_where_the_plan_says(
    stage: stages.Stage, planned: list[placements.Placement]
) -> None:
    placed = stage.placed()

    assert placed == planned
    by_node: dict[str, set[str]] = {}
    for node, daemon_set, _ in placed:
        by_node.setdefault(node, set()).add(daemon_set.partition("-plugin")[0].partition("-driver")[0])
    sharing = [node for node, found in by_node.items() if {"kae", "intel-qat", "intel-sgx"} <= found]
    assert len(sharing) >= 5
    assert sum("simple-kmod" in found for found in by_node.values()) >= NODES // 4


def test_a_wave_of_a_vendors_program_restarts_no_pod_of_another(
    stage: stages.Stage, planned: list[placements.Placement], tmp_path: Path
) -> None:
    waiting.until("Ready pods", lambda: all(pod.is_ready for pod in stage.pods()))
    before = {(pod.placement, pod.uid) for pod in stage.pods()}
    canary = {placement for placement in planned if placement[1] == "intel-qat-plugin-crypto--canary"}

    change, _ = stage.follow(tmp_path, *policies("0.36.1"), recipes=RECIPES)

    moved = {placement for placement, _ in before - {(pod.placement, pod.uid) for pod in stage.pods()}}
    assert moved == canary
    assert canary
    assert change.applied == ("DaemonSet intel-qat-plugin-crypto--canary",)
    assert (change.removed, change.labelled) == ((), frozenset())
