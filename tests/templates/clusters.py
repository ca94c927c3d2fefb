"""What the templates get of a small cluster: the compiler's own values, which tests change one field at a time."""

from typing import Any

from compiler import pipeline
from tests import builders

REPOSITORY = {"url": "https://git.test/fleet.git"}
_WATCHER = {
    "enabled": True,
    "image": "registry.test/kae-watcher:1.0",
    "secretName": "inventory-key",
    "repository": {"url": "https://git.test/inventory.git"},
}
_DRIVER = {"version": "2.0.1", "rollout": {"waves": [{"name": "canary", "percent": 25}]}}


def values(engine: str) -> dict[str, Any]:
    """Return the first value of each template, named as driver/daemonset is, for a cluster of Argo CD or Flux."""
    gitops = {"engine": engine, "repository": REPOSITORY}
    cluster = builders.cluster("east", kubernetesVersion="1.31", gitops=gitops, watcher=_WATCHER)
    plan, findings = builders.view([builders.policy("tls", driver=_DRIVER)], where=cluster)
    assert findings == ()
    made = pipeline.manifests_of(plan)
    found: dict[str, Any] = {}
    for manifest in (*made.manifests, *made.bootstrap):
        found.setdefault(f"{manifest.component}/{manifest.template.removesuffix('.yaml')}", manifest.value)
    return found
