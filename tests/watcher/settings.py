"""The file that configures the watcher."""

import json
from pathlib import Path
from typing import Any


def config(folder: Path, url: str, **changes: Any) -> Path:
    """Writes a config of cluster east that waits for nothing, with these fields changed, as a config names them."""
    stated: dict[str, Any] = {
        "version": 2,
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
