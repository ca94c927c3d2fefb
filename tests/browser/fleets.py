"""Projects with as many nodes and policies as a page has to bear."""

import json
from pathlib import Path

from benchmarks import fleets
from tests import project

_POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata: {{name: p{number:02d}}}
spec:
  nodeSelector: {{matchLabels: {{pool: p{number:02d}}}}}
  operator: {{enabledHPRE: true, enabledZIP: true}}
  driver:
    version: 2.2.0
    rollout: {{waves: [{{name: canary, percent: 5, version: 2.2.0}}]}}
  devicePlugin: {{version: 1.4.1}}
"""
_CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata: {{name: {name}}}
spec: {{kubernetesVersion: "1.31"}}
"""


def large(folder: Path, *, clusters: int = 2, nodes: int = 5000, policies: int = 40) -> Path:
    """A project with so many nodes in each cluster; a few of them are in no policy, or have opted out."""
    texts = {f"policies/p{number:02d}.yaml": _POLICY.format(number=number) for number in range(policies)}
    for cluster in range(clusters):
        name = f"c{cluster:02d}"
        texts[f"policies/{name}.yaml"] = _CLUSTER.format(name=name)
        texts[f"inventory/{name}.json"] = _nodes(name, nodes, policies)
    return project.write(folder, texts)


def _nodes(cluster: str, count: int, policies: int) -> str:
    items = []
    for number, node in enumerate(fleets.nodes(count)):
        name = f"{cluster}-{number:05d}"
        labels = node["metadata"]["labels"]
        labels.update({"pool": f"p{number * 7 % (policies + 1):02d}", "kubernetes.io/hostname": name})
        labels.update({"openfuyao.com/kae.deploy.driver": "false"} if number % 97 == 0 else {})
        items.append(node | {"metadata": node["metadata"] | {"name": name}})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
