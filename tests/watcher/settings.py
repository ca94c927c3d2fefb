"""Files that configure the watcher: a config, and access to an API server."""

import json
from pathlib import Path
from typing import Any


def config(folder: Path, url: str, **changes: Any) -> Path:
    """Writes a config of cluster east that waits for nothing, with these fields changed, as a config names them."""
    stated: dict[str, Any] = {
        "cluster": "east",
        "repository": {"url": url},
        "intervalSeconds": 600,
        "quietSeconds": 0,
        "removalQuietSeconds": 0,
        "minCommitSeconds": 0,
        "maxLossPercent": 100,
        "author": {"name": "kae-watcher", "email": "kae@example.com"},
        "messageTemplate": "inventory({cluster}): {summary}",
    }
    path = folder / "config.json"
    path.write_text(json.dumps(stated | changes))
    return path


def kubeconfig(folder: Path, server: str) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {"token": "any"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path
