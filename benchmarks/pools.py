"""The cost of many pools: 40 policies with 3 mappings and 2 waves each, on 12 kernels and up to 10,000 nodes."""

import json
import os
import statistics
import tempfile
from pathlib import Path

import tabulate

from benchmarks.processes import KAE, RUNS, cold, run
from compiler import names
from compiler.inventory import canonical_form, snapshot

POLICIES = 40
KERNELS = tuple(
    f"{release}.{build}.{name}.aarch64"
    for release, name in (("5.10.0-182.0.0", "oe2203sp3"), ("5.10.0-216.0.0", "oe2203sp4"), ("6.6.0-28.0.0", "oe2403"))
    for build in (95, 101, 115, 120)
)
_POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata: {{name: {name}}}
spec:
  nodeSelector: {{matchLabels: {{pool: {name}}}}}
  operator: {{enabledHPRE: true, enabledZIP: true}}
  driver:
    version: 2.2.0
    kernelMappings:
      - {{name: oe2203sp3, regexp: 'oe2203sp3\\.'}}
      - {{name: oe2203sp4, regexp: 'oe2203sp4\\.'}}
      - {{name: oe2403, regexp: 'oe2403', version: 2.2.1}}
    rollout:
      waves:
        - {{name: canary, percent: 5, version: 2.3.0}}
        - {{name: half, percent: 50}}
  devicePlugin: {{version: 1.4.1}}
"""
_PRESENT = {f"openfuyao.com/kae.{kind}.present": "true" for kind in ("hpre", "sec", "zip")}


def project(folder: Path, count: int) -> Path:
    """A project whose nodes are spread over all policies and kernels."""
    (folder / names.POLICIES).mkdir(parents=True)
    (folder / names.INVENTORY).mkdir()
    for number in range(POLICIES):
        name = f"policy-{number:02d}"
        (folder / names.POLICIES / f"{name}.yaml").write_text(_POLICY.format(name=name))
    profiles = [
        snapshot.Profile(
            architecture="arm64",
            kernel_version=kernel,
            kubelet_version="v1.31.4",
            os_image="openEuler 22.03 (LTS-SP3)",
            discovered=True,
            labels={"openfuyao.com/kae.present": "true"} | _PRESENT,
            taints=(),
        )
        for kernel in KERNELS
    ]
    nodes = tuple(
        snapshot.Node(
            name=f"kp920-{number:06d}",
            profile=profiles[number // POLICIES % len(profiles)],
            hostname=f"kp920-{number:06d}",
            labels={"pool": f"policy-{number % POLICIES:02d}", "zone": f"rack{number // 40:04d}"},
        )
        for number in range(count)
    )
    found = snapshot.Inventory(cluster=snapshot.ClusterName("large"), file="", nodes=nodes)
    (folder / names.INVENTORY / "large.json").write_text(canonical_form.text(found))
    return folder


def main() -> None:
    """Measure in a temporary folder."""
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for count in (100, 1_000, 10_000):
            folder = project(Path(name) / str(count), count)
            forget, found = cold(folder), []
            for _ in range(RUNS):
                forget()
                found.append(run((*KAE, "compile"), folder))
            walls, processors, peaks = zip(*((cost.wall_s, cost.cpu_s, cost.peak.pss) for cost in found), strict=True)
            figure = (
                f"{count} nodes, cold",
                f"{statistics.median(walls) * 1000:.0f} ms",
                f"{statistics.median(processors) * 1000:.0f} ms",
                f"{statistics.median(peaks):.0f} MiB",
            )
            files = json.loads((folder / "output" / "large" / "index.json").read_text())["files"]
            objects = [path for path in files if "/" in path]
            size = statistics.fmean(len((folder / "output" / "large" / path).read_bytes()) for path in objects)
            rows.append((*figure, len(objects), f"{size / 1024:.1f} KiB"))
    head = (f"median of {RUNS}", "wall", "processor", "peak", "objects", "mean object")
    print(tabulate.tabulate(rows, headers=head, disable_numparse=True))


if __name__ == "__main__":
    main()
