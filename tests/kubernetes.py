"""Real readers of manifests: kubectl, which reads as Argo CD does, and its kustomize, which reads as Flux does."""

import json
import subprocess
from typing import Any

from tests import outside


def kubectl(*arguments: str, text: str | None = None) -> str:
    """Return what kubectl prints."""
    command = [outside.kubectl(), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout


def as_kubectl_reads(text: str) -> Any:
    """Return the object as Go reads it, through JSON."""
    return json.loads(kubectl("patch", "--local", "-f", "-", "--type=merge", "-p", "{}", "-o", "json", text=text))
