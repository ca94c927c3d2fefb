"""Use the devices of this container as a workload begins to: `python -m runtime.smoke`, which `kae smoke` has pods run.

It opens each device of /sys/class/uacce that has a node here, and starts a queue. It prints a line for each, and exits
with 0 when every device gave its queue, and with 1 when one did not, or when there is none.
"""

import errno
import os
import sys
import threading
from pathlib import Path

from runtime import readings, uacce

_HINTS = {
    errno.EACCES: "give the pod a group or a user that may open it",
    errno.EBUSY: "all its queues are in use",
    errno.ENODEV: "it is gone, or its driver is about to end",
    errno.EPERM: "the container was not given this device",
}


def main(sysfs: Path = Path("/sys"), dev: Path = Path("/dev"), seconds: float = 60) -> int:
    """Print what happens with each device within so many seconds, and return the exit code."""
    entries = sysfs / "class/uacce"
    # Entries of other containers' devices have no node here.
    nodes = [dev / name for name in sorted(readings.names(entries)) if (dev / name).exists()]
    if not nodes:
        _say(f"No device of {entries} has a node in {dev}: this container got no device.")
        return 1
    return max([_try(node, seconds) for node in nodes])


def _try(node: Path, seconds: float) -> int:
    """Print what happens with one device, and return the exit code; a driver may let a request wait for ever."""
    answers: dict[str, int] = {}
    thread = threading.Thread(target=lambda: answers.update(uacce.steps(str(node))), daemon=True)
    thread.start()
    thread.join(seconds)
    sentence, code = _judged(answers) if not thread.is_alive() else (f"does not answer within {seconds:g} seconds", 1)
    _say(f"{node} {sentence}.")
    return code


def _judged(answers: dict[str, int]) -> tuple[str, int]:
    if answers["open"]:
        return f"cannot be opened: {_reason(answers['open'])}", 1
    if answers["context"] not in (0, errno.ENOTTY, errno.EINVAL):  # Drivers without such an ioctl answer one of these.
        return f"was opened, and refuses the context of a queue: {_reason(answers['context'])}", 1
    if answers["start"] == errno.ENOTTY:
        return "was opened; no queue was started, as its driver has no ioctl for that", 0
    if answers["start"]:
        return f"was opened, and refuses to start a queue: {_reason(answers['start'])}", 1
    return "was opened, and a queue was started", 0


def _reason(number: int) -> str:
    hint = _HINTS.get(number)
    return f"{os.strerror(number)} ({errno.errorcode.get(number, number)}){f'; {hint}' if hint else ''}"


def _say(sentence: str) -> None:
    node = os.environ.get("NODE_NAME")
    sys.stdout.write(f"node {node}: {sentence}\n" if node else f"{sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
