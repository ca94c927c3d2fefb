"""The stubs that are checked in, and their types, belong to the .proto files beside them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from device_plugin.api import deviceplugin_v1beta1_pb2, pluginregistration_v1_pb2

API = Path("device_plugin") / "api"
PROTOS = ("deviceplugin_v1beta1", "pluginregistration_v1")
GENERATED = tuple(f"{proto}{ending}" for proto in PROTOS for ending in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py"))


@pytest.fixture(scope="module")
def regenerated(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the command at the head of each .proto was carried out."""
    out = tmp_path_factory.mktemp("regenerated")
    outputs = [f"--{language}_out={out}" for language in ("python", "pyi", "grpc_python")]
    protos = [str(API / f"{proto}.proto") for proto in PROTOS]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{repository_root}", *outputs, *protos]
    subprocess.run(command, check=True, cwd=repository_root, timeout=60)
    return out / API


@pytest.mark.parametrize("name", GENERATED)
def test_what_is_checked_in_is_what_the_generator_makes(name: str, regenerated: Path, repository_root: Path) -> None:
    checked_in = repository_root / API / name

    assert checked_in.read_bytes() == (regenerated / name).read_bytes()


@pytest.mark.parametrize("proto", PROTOS)
def test_the_command_that_makes_the_stubs_stands_at_the_head_of_the_proto(proto: str, repository_root: Path) -> None:
    head, _, _ = (repository_root / API / f"{proto}.proto").read_text().partition("syntax =")

    assert (
        "python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. device_plugin/api/*.proto"
    ) in head


@pytest.mark.parametrize("proto", PROTOS)
def test_the_types_written_by_hand_name_every_class_and_method_generated(proto: str, repository_root: Path) -> None:
    generated = ast.parse((repository_root / API / f"{proto}_pb2_grpc.py").read_text())
    typed = ast.parse((repository_root / API / f"{proto}_pb2_grpc.pyi").read_text())

    assert {name: members(typed)[name] for name in members(generated)} == members(generated)


def members(module: ast.Module) -> dict[str, set[str]]:
    """Return the methods of a module's stub and servicer classes, and the functions that add them to a server."""
    found = {node.name: set[str]() for node in module.body if isinstance(node, ast.FunctionDef)}
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Stub", "Servicer")):
            found[node.name] = set(_offered(node))
    return found


def _offered(node: ast.ClassDef) -> list[str]:
    methods = [inner.name for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)]
    fields = [ast.unparse(inner.target) for inner in node.body if isinstance(inner, ast.AnnAssign)]
    assigned = [
        inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
    ]
    return [*methods, *fields, *assigned]


def test_the_calls_have_the_paths_that_the_kubelet_uses() -> None:
    plugin = deviceplugin_v1beta1_pb2.DESCRIPTOR.services_by_name["DevicePlugin"]
    registration = pluginregistration_v1_pb2.DESCRIPTOR.services_by_name["Registration"]

    assert plugin.full_name == "v1beta1.DevicePlugin"
    assert registration.full_name == "pluginregistration.Registration"


def test_a_device_on_numa_node_zero_says_so_on_the_wire() -> None:
    device = deviceplugin_v1beta1_pb2.Device(
        ID="a",
        health="Healthy",
        topology=deviceplugin_v1beta1_pb2.TopologyInfo(nodes=[deviceplugin_v1beta1_pb2.NUMANode(ID=0)]),
    )

    # Fields by number and type, then length and content: ID = 1, health = 2, topology = 3 with one empty node.
    assert device.SerializeToString() == b"\x0a\x01a" + b"\x12\x07Healthy" + b"\x1a\x02\x0a\x00"
