#!/usr/bin/env -S python3 -S -E
"""modprobe, rmmod, lsmod, depmod, modinfo or udevadm of a fake host, by the name that it is called by.

A link to this file stands where the program would; the modules beside it are found by it, also in a copy of
tests/installer/fakes inside a root that is entered by chroot. The host is FAKE_ROOT, or / where that is not set.
fake/calls lists the calls. fake/failures.json lets calls fail: a list of objects with `command` (the first words of
the call), `text` and `code`, `times` (null: always), and `seconds` to wait before. Nodes are regular files, of which
anybody sees the mode, unless the machine has real ones.
"""

# Importing pathlib takes as long as a whole call:
# ruff: noqa: PTH119, PTH123

import fcntl
import os
import sys
import time

sys.path[0] = os.path.realpath(__file__).rsplit("/", 4)[0]

from tests.installer.fakes import disk, programs  # noqa: E402 - found by the line above

TYPE_CHECKING = False  # As typing's, which is slow to import.
if TYPE_CHECKING:
    from typing import Any


def main(program: str, arguments: list[str]) -> int:
    """The exit code."""
    root = os.environ.get("FAKE_ROOT", "/")
    host = disk.Disk(root)
    words = [program, *arguments]
    code, text = 0, ""
    with open(host.at("fake/lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(host.at("fake/calls"), "a", encoding="utf-8") as calls:
            calls.write(" ".join(words) + "\n")
        failure = _failure(host, words)
        if not failure:
            try:
                sys.stdout.write(programs.Programs(root).run(program, arguments))
            except programs.Failed as failed:
                sys.stdout.write(failed.said)
                code, text = failed.code, failed.text
    if failure:
        time.sleep(failure.get("seconds", 0))
        code, text = failure["code"], failure["text"]
    sys.stdout.flush()
    if text:
        sys.stderr.write(f"{text}\n")
    return code


def _failure(host: disk.Disk, words: list[str]) -> "dict[str, Any]":
    """The first failure that is meant for a call; one that has been given often enough is struck from the list."""
    failures = host.value("fake/failures.json", [])
    for failure in failures:
        wanted = failure["command"].split()
        if words[: len(wanted)] == wanted:
            if failure.get("times") is not None:
                import json  # noqa: PLC0415 - slow to import, and seldom needed

                failure["times"] -= 1
                left = [each for each in failures if each.get("times") != 0]
                host.write("fake/failures.json", json.dumps(left))
            return dict(failure)
    return {}


if __name__ == "__main__":
    sys.exit(main(os.path.basename(sys.argv[0]), sys.argv[1:]))
