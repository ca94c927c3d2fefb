"""The messages that are checked in belong to the .proto files beside them."""

import subprocess
import sys
from pathlib import Path

import pytest

from device_plugin.api import (
    deviceplugin_v1beta1_pb2,
    dra_health_v1alpha1_pb2,
    dra_v1_pb2,
    pluginregistration_v1_pb2,
)

API = Path("device_plugin") / "api"
PROTOS = ("deviceplugin_v1beta1", "dra_v1", "dra_health_v1alpha1", "pluginregistration_v1")
GENERATED = tuple(f"{proto}{ending}" for proto in PROTOS for ending in ("_pb2.py", "_pb2.pyi"))


@pytest.fixture(scope="module")
def regenerated(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the command at the head of each .proto was carried out."""
    out = tmp_path_factory.mktemp("regenerated")
    outputs = [f"--{language}_out={out}" for language in ("python", "pyi")]
    protos = [str(API / f"{proto}.proto") for proto in PROTOS]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{repository_root}", *outputs, *protos]
    subprocess.run(command, check=True, cwd=repository_root, timeout=60)
    return out / API


@pytest.mark.parametrize("name", GENERATED)
def test_what_is_checked_in_is_what_the_generator_makes(name: str, regenerated: Path, repository_root: Path) -> None:
    checked_in = repository_root / API / name

    assert checked_in.read_bytes() == (regenerated / name).read_bytes()


@pytest.mark.parametrize("proto", PROTOS)
def test_the_command_that_makes_the_messages_stands_at_the_head_of_the_proto(proto: str, repository_root: Path) -> None:
    head, _, _ = (repository_root / API / f"{proto}.proto").read_text().partition("syntax =")

    assert "python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. device_plugin/api/*.proto" in head


def test_the_calls_have_the_paths_that_the_kubelet_uses() -> None:
    plugin = deviceplugin_v1beta1_pb2.DESCRIPTOR.services_by_name["DevicePlugin"]
    registration = pluginregistration_v1_pb2.DESCRIPTOR.services_by_name["Registration"]

    driver = dra_v1_pb2.DESCRIPTOR.services_by_name["DRAPlugin"]
    health = dra_health_v1alpha1_pb2.DESCRIPTOR.services_by_name["DRAResourceHealth"]

    assert plugin.full_name == "v1beta1.DevicePlugin"
    assert driver.full_name == "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
    assert health.full_name == "v1alpha1.DRAResourceHealth"
    assert registration.full_name == "pluginregistration.Registration"


def test_a_device_on_numa_node_zero_says_so_on_the_wire() -> None:
    device = deviceplugin_v1beta1_pb2.Device(
        ID="a",
        health="Healthy",
        topology=deviceplugin_v1beta1_pb2.TopologyInfo(nodes=[deviceplugin_v1beta1_pb2.NUMANode(ID=0)]),
    )

    # Fields by number and type, then length and content: ID = 1, health = 2, topology = 3 with one empty node.
    assert device.SerializeToString() == b"\x0a\x01a" + b"\x12\x07Healthy" + b"\x1a\x02\x0a\x00"
