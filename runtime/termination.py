"""A program's last word, which `kubectl describe pod` shows."""

import contextlib
import os
from pathlib import Path

PATH = Path("/dev/termination-log")
"""Kubernetes' default terminationMessagePath, a file that the kubelet mounts into the container."""

# What the kubelet keeps of the file, and from its end (MaxContainerTerminationMessageLength in Kubernetes'
# pkg/kubelet/container/runtime.go); the start of a sentence says more.
_LIMIT_BYTES = 4096


def report(message: str, path: Path = PATH) -> None:
    """Leaves the reason of the end as one line, cut to what the kubelet keeps, if there is a file for it."""
    line = " ".join(message.split()).encode(errors="replace")
    whole = line[:_LIMIT_BYTES].decode(errors="ignore")  # no half of a character
    # It comes with a failure that the log tells too; to fail on top of it would hide that one.
    with contextlib.suppress(OSError):
        # Without O_CREAT: outside of a container nobody reads it.
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(whole)
