"""The reason why a program ended, which `kubectl describe pod` shows."""

import contextlib
import os
from pathlib import Path

PATH = Path("/dev/termination-log")
"""Kubernetes' default terminationMessagePath, a file that the kubelet mounts into the container."""

# The kubelet keeps the last bytes of a longer file (MaxContainerTerminationMessageLength in Kubernetes'
# pkg/kubelet/container/runtime.go); the start of a sentence says more.
_LIMIT_BYTES = 4096


def report(message: str, path: Path = PATH) -> None:
    """Write the reason of the end as one line, cut to the length that the kubelet keeps, if there is a file for it."""
    line = " ".join(message.split()).encode(errors="replace")
    whole = line[:_LIMIT_BYTES].decode(errors="ignore")  # no half of a character
    # The log has the reason too, and an error here would hide it.
    with contextlib.suppress(OSError):
        # Without O_CREAT: outside of a container the file has no reader.
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(whole)
