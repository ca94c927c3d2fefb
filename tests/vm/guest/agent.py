#!/usr/bin/python3
"""Runs in the guest, as root: a line of JSON on the second serial port is a command, a line back is what came of it.

Request: {"id": 1, "command": "shell text", "timeout": 60}; answer: {"id": 1, "code": 0, "output": "..."}; code 124 is
a command that was killed at its time, and -1 one that could not even be killed. Commands run beside each other.
"""

import json
import os
import signal
import subprocess
import threading
import tty
from pathlib import Path
from typing import Any

PORT = "/dev/ttyS1"
_writing = threading.Lock()


def main() -> None:
    descriptor = os.open(PORT, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(descriptor)
    _say(descriptor, 0, 0, Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with os.fdopen(os.dup(descriptor), "rb") as lines:
        for line in lines:
            try:
                request = json.loads(line)
            except ValueError:
                continue  # The rest of a line that was cut by a boot.
            threading.Thread(target=_run, args=(descriptor, request), daemon=True).start()


def _run(descriptor: int, request: dict[str, Any]) -> None:
    process = subprocess.Popen(
        ["/bin/sh", "-c", request["command"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=request["timeout"])
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            output, _ = process.communicate(timeout=2)
            code = 124
        except subprocess.TimeoutExpired as still:  # In state D, such as rmmod of a module whose device is open.
            output, code = still.output or b"", -1
    _say(descriptor, request["id"], code, output.decode(errors="replace"))


def _say(descriptor: int, number: int, code: int, output: str) -> None:
    rest = json.dumps({"id": number, "code": code, "output": output}).encode() + b"\n"
    with _writing:
        while rest:
            rest = rest[os.write(descriptor, rest) :]


if __name__ == "__main__":
    main()
