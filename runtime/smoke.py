"""Use the devices of this container as a workload begins to: `python -m runtime.smoke`, which `kae smoke` has pods run.

It opens each device of /sys/class/uacce that has a node here, and starts a queue. It prints a line for each, and exits
with 0 when every device gave its queue, and with 1 when one did not, or when there is none.
"""

import argparse
import errno
import os
import sys
import threading
from pathlib import Path

from runtime import uacce

_HINTS = {
    errno.EACCES: "give the pod a group or a user that may open it",
    errno.EBUSY: "all its queues are in use",
    errno.ENODEV: "it is gone, or its driver is about to end",
    errno.EPERM: "the container was not given this device",
}


def main(arguments: list[str] | None = None) -> int:
    """Print what happens with each device, and return the exit code."""
    options = _parser().parse_args(arguments)
    nodes = _nodes(options.sysfs / "class/uacce", options.dev)
    if not nodes:
        _say(f"No device of {options.sysfs / 'class/uacce'} has a node in {options.dev}: this container got no device.")
        return 1
    return max([_try(node, options.seconds) for node in nodes])


def _nodes(entries: Path, dev: Path) -> list[Path]:
    """Return the device nodes here of the entries of uacce; entries of other containers' devices have none."""
    names = sorted(path.name for path in entries.iterdir()) if entries.is_dir() else []
    return [dev / name for name in names if (dev / name).exists()]


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runtime.smoke", description=__doc__, allow_abbrev=False)
    parser.add_argument("--sysfs", type=Path, default=Path("/sys"), metavar="DIR", help="default: /sys")
    parser.add_argument("--dev", type=Path, default=Path("/dev"), metavar="DIR", help="default: /dev")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="for one device (default: 60)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
