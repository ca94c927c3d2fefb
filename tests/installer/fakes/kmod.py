#!/usr/bin/env -S python3 -S -E
"""modprobe, rmmod, depmod, modinfo or udevadm of a fake host, by the name that it is called by.

A link to this file stands where the program would; the modules beside it are found by it, also in a copy of
tests/installer/fakes inside a root that is entered by chroot. The host is FAKE_ROOT, or / where that is not set.
Nodes are regular files, of which anybody sees the mode, unless the machine has real ones.
"""

# Importing pathlib takes as long as a whole call:
# ruff: noqa: PTH119

import os
import sys
import time

sys.path[0] = os.path.realpath(__file__).rsplit("/", 4)[0]

from tests.installer.fakes import calls, kernel  # noqa: E402 - found by the line above


def main(words: list[str]) -> int:
    """The exit code."""
    try:
        code, out, text = calls.answer(os.environ.get("FAKE_ROOT", "/"), words)
    except kernel.Hangs:
        time.sleep(600)
        return 1
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.stdout.write(out)
    sys.stdout.flush()
    if text:
        sys.stderr.write(f"{text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main([os.path.basename(sys.argv[0]), *sys.argv[1:]]))
