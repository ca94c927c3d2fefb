"""Fleets of any size: Node objects as a Kunpeng cluster's API server prints them, and projects around them."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import processes

_KERNELS = (
    *(["5.10.0-182.0.0.95.oe2203sp3.aarch64"] * 5),
    *(["5.10.0-216.0.0.115.oe2203sp4.aarch64"] * 3),
    *(["6.6.0-28.0.0.34.oe2403.aarch64"] * 2),
)
_CPU = ("AESARM", "ASIMD", "ASIMDDP", "ATOMICS", "CRC32", "EVTSTRM", "FP", "FPHP", "PMULL", "SHA1", "SHA2")
_POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata: {{name: {name}}}
spec:
  nodeSelector: {{matchLabels: {{pool: {name}}}}}
  operator: {{enabledHPRE: true, enabledZIP: true}}
  driver: {{version: 2.2.0}}
  devicePlugin: {{version: 1.4.1}}
"""


def nodes(count: int) -> Iterator[dict[str, Any]]:
    """Nodes of three pools, ten kernels in three releases, with two or four devices of each kind."""
    return (_node(number) for number in range(count))


def _node(number: int) -> dict[str, Any]:
    name = f"kp920-{number:06d}"
    kernel = _KERNELS[number % 10]
    digest = hashlib.sha256(name.encode()).hexdigest()
    feature = "feature.node.kubernetes.io"
    labels = {f"{feature}/cpu-cpuid.{flag}": "true" for flag in _CPU} | {
        "beta.kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/os": "linux",
        f"{feature}/kernel-version.full": kernel,
        f"{feature}/kernel-version.major": kernel.split(".")[0],
        f"{feature}/system-os_release.ID": "openEuler",
        f"{feature}/system-os_release.VERSION_ID": "22.03" if "2203" in kernel else "24.03",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
        "openfuyao.com/kae.present": "true",
        "pool": ("tls", "storage", "web")[number % 3],
        "topology.kubernetes.io/zone": f"rack{number // 40:04d}",
    }
    for kind in ("hpre", "sec", "zip"):
        labels[f"openfuyao.com/kae.{kind}.present"] = "true"
        labels[f"openfuyao.com/kae.{kind}.pf"] = "2" if number % 20 < 12 else "4"
    capacity = {"cpu": "128", "ephemeral-storage": "514937088Ki", "memory": "527868416Ki", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": dict(sorted(labels.items())),
            "annotations": {"nfd.node.kubernetes.io/feature-labels": ",".join(sorted(labels)), "volatile": digest},
        },
        "spec": {"podCIDR": f"10.{int(digest[:2], 16)}.{int(digest[2:4], 16)}.0/24"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [
                {"type": kind, "status": "False", "reason": f"KubeletHas{kind}", "message": "as it should be " * 4}
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "images": [{"names": [f"registry.example.com/app@sha256:{digest}"], "sizeBytes": 123456789}] * 4,
            "nodeInfo": {
                "architecture": "arm64",
                "bootID": digest[:32],
                "containerRuntimeVersion": "containerd://1.7.22",
                "kernelVersion": kernel,
                "kubeletVersion": "v1.31.4",
                "machineID": digest[32:],
                "operatingSystem": "linux",
                "osImage": "openEuler 22.03 (LTS-SP3)",
            },
        },
    }


def answer(path: Path, count: int) -> None:
    """Write the output of `kubectl get nodes -o json` for many nodes, one by one to save memory."""
    with path.open("w") as file:
        file.write('{"apiVersion": "v1", "kind": "List", "items": [')
        for number, node in enumerate(nodes(count)):
            file.write(f"{',' if number else ''}\n{json.dumps(node, indent=1)}")
        file.write("]}\n")


def project(folder: Path, policies: tuple[str, ...] = ("tls", "storage")) -> Path:
    """A project with policies and no inventory yet."""
    (folder / "policies").mkdir(parents=True)
    (folder / "inventory").mkdir()
    for name in policies:
        (folder / "policies" / f"{name}.yaml").write_text(_POLICY.format(name=name))
    return folder


def clusters(folder: Path, count: int, size: int) -> Path:
    """Write a project of many clusters with equal nodes; return the first inventory."""
    project(folder)
    first = folder / "inventory" / "cluster-000.json"
    reduced(size, first)
    text = first.read_text()
    for number in range(1, count):
        name = f"cluster-{number:03d}"
        (folder / "inventory" / f"{name}.json").write_text(text.replace('"cluster-000"', f'"{name}"'))
    return first


def reduced(count: int, path: Path) -> None:
    """Write the canonical inventory of `count` nodes of the cluster that the file is named after."""
    raw = path.with_name("answer")
    answer(raw, count)
    with raw.open() as asked, path.open("w") as inventory:
        subprocess.run((*processes.KAE, "inventory", "--cluster", path.stem), stdin=asked, stdout=inventory, check=True)
    raw.unlink()


def changing(inventory: Path) -> Callable[[], None]:
    """Change a label of an inventory, and the next time back."""
    text = inventory.read_text()
    turn = [text, text.replace('"rack0000"', '"rack9999"')]

    def change() -> None:
        turn.reverse()
        inventory.write_text(turn[0])

    return change


def commit(folder: Path) -> None:
    """Commit the documents of a project; its folder becomes a repository."""
    author = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.com")
    for command in (("init", "-q"), ("add", "policies", "inventory"), (*author, "commit", "-q", "-m", "documents")):
        subprocess.run(("git", *command), cwd=folder, check=True)  # noqa: S607 - the git of the user
