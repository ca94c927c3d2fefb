"""The program `kae` for tests that call it often: each call is a fork of one process, and takes a tenth of the time.

Some tests keep the real program, so that it stays proved: tests/cli/test_main.py, and one of the compile job in
tests/cli/test_init.py.
"""

import atexit
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def text(after: str = "sys.exit(call(SERVER, sys.argv[1:]))") -> str:
    """Return the text of a program that is called as kae is, and ends with these lines."""
    start = f"sys.path.insert(0, {str(ROOT)!r})\nfrom tests.kae_forks.client import call\nSERVER = {server()!r}\n"
    return f"#!{sys.executable} -IS\nimport sys\n{start}{after}\n"


@functools.cache
def server() -> str:
    """Return the socket of the server, which is started once and ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="kae-forks-")
    path = str(Path(folder.name, "socket"))
    command = (sys.executable, "-m", "tests.kae_forks.server", path)
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(folder.cleanup)
    atexit.register(process.communicate)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    return path
