"""A small fleet in a folder: two clusters, a policy for each, and a node for every verdict."""

import json
from pathlib import Path
from typing import Any

from tests import builders, project

POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: tls
spec:
  clusters: [east]
  nodeSelector:
    matchLabels:
      pool: tls
  driver:
    version: 2.2.0
  devicePlugin:
    version: 1.4.1
    sharing:
      hpre: 8
"""
REST = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: rest
spec:
  default: true
  driver:
    enabled: false
  devicePlugin:
    version: 1.4.1
"""
EAST = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata:
  name: east
"""
CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata:
  name: west
spec:
  kubernetesVersion: "1.31"
"""
HPRE = builders.HPRE | {"openfuyao.com/kae.hpre.pf": "2"}
NODES = (
    builders.kubernetes_node("kp920-01", HPRE | {"pool": "tls"}),
    builders.kubernetes_node("kp920-02", HPRE | {"pool": "tls", "openfuyao.com/kae.deploy.driver": "false"}),
    builders.kubernetes_node("kp920-03", HPRE),
    builders.kubernetes_node(
        "kp920-04", HPRE | {"pool": "tls"}, [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    ),
    builders.kubernetes_node("new-01", {"pool": "tls"}),
    builders.kubernetes_node("x86-01", {"feature.node.kubernetes.io/pci-0200.present": "true"}),
)
"""The output of kubectl for the nodes of cluster east."""


def listed(nodes: tuple[Any, ...] = NODES) -> str:
    """Return the output of `kubectl get nodes -o json`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(nodes)}, indent=2)


def small(folder: Path) -> Path:
    """A project that compiles without a word."""
    return project.write(
        folder,
        {
            "policies/tls.yaml": POLICY,
            "policies/rest.yaml": REST,
            "policies/east.yaml": EAST,
            "policies/west.yaml": CLUSTER,
            "inventory/east.json": listed(NODES[:1]),
        },
    )


def full(folder: Path) -> Path:
    """A project whose nodes meet every fate."""
    return project.write(small(folder), {"inventory/east.json": listed()})


ACCEPT_WEST = ("--accept", "removes-drivers:west", "--accept", "removes-device-plugins:west")
"""Arguments that let the output of west go."""
