"""A fleet that loses something by one mistake: a cluster with every protection, two policies and ten nodes."""

import copy
from pathlib import Path
from typing import Any

from tests import builders, in_process, project
from tests.cli import fleet

HEAD = "apiVersion: device.openfuyao.com/v1alpha1\n"
EAST = f"""\
{HEAD}kind: KAECluster
metadata:
  name: east
spec:
  namespace: kae-prod
  kubernetesVersion: "1.31"
  gitops:
    engine: argocd
    repository:
      url: https://git.example.com/platform/kae.git
"""
TLS = f"""\
{HEAD}kind: KAEPolicy
metadata:
  name: tls
spec:
  clusters: [east]
  nodeSelector:
    matchLabels:
      pool: tls
  driver:
    version: 2.2.0
    rollout:
      frozen:
        - name: sick
          inventorySelector:
            matchLabels:
              rack: r3
          version: 2.1.0
  devicePlugin:
    version: 1.4.1
"""


def node(number: int, pool: str = "tls", rack: str = "r1", **deploy: str) -> dict[str, Any]:
    """Return a node with two HPRE devices."""
    given = {f"openfuyao.com/kae.deploy.{name}": value for name, value in deploy.items()}
    return builders.kubernetes_node(f"kp-{number:02}", fleet.HPRE | {"pool": pool, "rack": rack} | given)


NODES = (*(node(number, rack="r3" if number > 6 else "r1") for number in range(1, 9)), node(9, "db"), node(10, "db"))
"""Eight nodes of policy tls, of which 7 and 8 are frozen, and two of policy rest."""


def without_label(number: int, label: str) -> tuple[dict[str, Any], ...]:
    """Return the nodes, one of which has lost a label."""
    nodes = copy.deepcopy(NODES)
    del nodes[number - 1]["metadata"]["labels"][label]
    return nodes


def compiled(folder: Path, **texts: str) -> Path:
    """Return the project, compiled; `texts` replaces policies by name."""
    project.write(folder, {"inventory/east.json": fleet.listed(NODES)})
    policies = {"east": EAST, "west": fleet.CLUSTER, "tls": TLS, "rest": fleet.REST} | texts
    project.write(folder, {f"policies/{name}.yaml": text for name, text in policies.items() if text})
    assert in_process.kae(folder, "compile", "--no-cache").code == 0
    return folder
