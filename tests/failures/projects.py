"""The projects that git cannot keep, or that would be dull to read: made where they are needed."""

import codecs
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from compiler import API_VERSION
from compiler.formats import decode
from tests import project

POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: tls
spec:
  driver:
    version: 2.2.0
  devicePlugin:
    version: 1.4.1
"""
CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata:
  name: east
spec:
  kubernetesVersion: "1.31"
"""


def _not_a_file(folder: Path) -> None:
    project.write(folder, {"policies/tls.yaml/notes.txt": "A folder in a document's place.\n"})
    (folder / "policies/west.yaml").symlink_to("clusters/west.yaml")
    os.mkfifo(folder / "policies/vm.yaml")


def _file_too_large(folder: Path) -> None:
    size = decode.YAML_BYTES + (1 << 20)
    project.write(folder, {"inventory/east.yaml": "apiVersion: v1\nkind: List\nitems:\n".ljust(size, "#")})


def _bad_encoding(folder: Path) -> None:
    policies = folder / "policies"
    policies.mkdir(parents=True)
    (policies / "latin.yaml").write_bytes(f"# Für die Front-Ends\n{POLICY}".encode("latin-1"))
    (policies / "marked.yaml").write_bytes(codecs.BOM_UTF8 + POLICY.encode())
    (policies / "wide.yaml").write_bytes(POLICY.encode("utf-16"))


def _forbidden_character(folder: Path) -> None:
    nodes = '{"apiVersion": "v1", "kind": "List", "items": [{"metadata": {"name": "kp920-\\ud83d"}}]}\n'
    texts = {
        "policies/nul.yaml": POLICY.replace("2.2.0", "2.2.0\0"),
        "policies/pasted.yaml": POLICY.replace(" tls", " \ufefftls"),
        "inventory/east.json": nodes,
    }
    project.write(folder, texts)


def _nesting_too_deep(folder: Path) -> None:
    nested = f"{'[' * 70}{']' * 70}\n"
    project.write(folder, {"policies/tls.yaml": f"{POLICY}  daemonSets: {nested}", "inventory/east.json": nested})


def _pool_rules_too_large(folder: Path) -> None:
    waves = "      waves: [{name: early, percent: 100, version: 2.3.0}]\n"
    policy = POLICY.replace("2.2.0\n", f"2.2.0\n    rollout:\n{waves}")
    # Their names are long, so that a few thousand suffice.
    long = ".".join("x" * 63 for _ in range(3))
    nodes = [{"name": f"{number:04}.{long}", "profile": "0a1b2c3d"} for number in range(7200)]
    machine = {"architecture": "arm64", "discovered": True, "kernelVersion": "5.10.0", "kubeletVersion": "v1.31.4"}
    profiles = {"0a1b2c3d": machine | {"labels": {}, "osImage": "openEuler 22.03 (LTS-SP4)"}}
    spec = {"nodes": nodes, "profiles": profiles}
    inventory = {"apiVersion": API_VERSION, "kind": "NodeInventory", "metadata": {"name": "east"}, "spec": spec}
    project.write(folder, {"policies/tls.yaml": policy, "inventory/east.json": json.dumps(inventory)})


def _cluster_removed(folder: Path) -> None:
    project.write(folder, {"policies/east.yaml": CLUSTER, "policies/west.yaml": CLUSTER.replace("east", "west")})
    project.kae(folder, "compile", "--no-cache")
    (folder / "policies/west.yaml").unlink()


def _driver_left_behind(folder: Path) -> None:
    tls = POLICY.replace("spec:", "spec:\n  nodeSelector: {matchLabels: {pool: tls}}")
    absent = tls.replace("tls", "absent").replace("2.2.0", "2.2.0\n    state: Absent")
    project.write(folder, {"policies/east.yaml": CLUSTER, "policies/tls.yaml": tls, "policies/absent.yaml": absent})
    project.kae(folder, "compile", "--no-cache")
    (folder / "policies/tls.yaml").unlink()
    (folder / "policies/absent.yaml").unlink()


def _foreign_file(folder: Path) -> None:
    project.write(folder, {"policies/east.yaml": CLUSTER, "policies/tls.yaml": POLICY})
    project.kae(folder, "compile", "--no-cache")
    project.write(folder / "output/east", {"driver/patch.yaml": "a: b\n", "notes/monday.md": "Ask about the lease.\n"})


MADE: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "not-a-file": _not_a_file,
        "file-too-large": _file_too_large,
        "bad-encoding": _bad_encoding,
        "forbidden-character": _forbidden_character,
        "nesting-too-deep": _nesting_too_deep,
        "pool-rules-too-large": _pool_rules_too_large,
        "cluster-removed": _cluster_removed,
        "driver-left-behind": _driver_left_behind,
        "foreign-file": _foreign_file,
    }
)
"""By code, what makes its project in an empty folder."""
