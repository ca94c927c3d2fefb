"""The termination message of a container, which `kubectl describe pod` shows."""

import contextlib
import os
from pathlib import Path

PATH = Path("/dev/termination-log")
"""Kubernetes' default terminationMessagePath, a file that the kubelet mounts into the container."""

# Of a longer file the kubelet keeps the last bytes (MaxContainerTerminationMessageLength in Kubernetes'
# pkg/kubelet/container/runtime.go), but people need the first ones.
_LIMIT_BYTES = 4096


def report(message: str, path: Path = PATH) -> None:
    """Write a message as one line of at most 4096 bytes; do nothing where the file does not exist."""
    line = " ".join(message.split()).encode(errors="replace")
    whole = line[:_LIMIT_BYTES].decode(errors="ignore")  # The cut may split a character.
    # The log has the message too, and an exception would hide it.
    with contextlib.suppress(OSError):
        # O_CREAT is not set: outside of a container nobody reads the file.
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(whole)
