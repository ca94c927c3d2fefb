"""Answer calls of kae in forks of one process, which has imported the compiler and compiled once.

Each fork runs the real entry point with the folder, the variables and the standard streams of its call.
"""

import contextlib
import gc
import importlib
import io
import os
import pkgutil
import select
import socket
import sys
import tempfile
import traceback
from typing import NoReturn

import compiler
from compiler import __main__ as entry
from compiler import cli

_MESSAGE_BYTES = 1 << 18
_DESCRIPTORS = 256
"""More than the compiler ever has open."""

_end = os._exit


def serve(path: str) -> None:
    """Accept calls until stdin is closed."""
    warm_up()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        gc.collect()
        gc.freeze()
        os.write(1, b"ready\n")
        while 0 not in select.select([0, server.fileno()], [], [])[0]:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                answer(connection)
            connection.close()
            collect()


def collect() -> None:
    """Collect forks that ended; each has reported its own code."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def warm_up() -> None:
    """Import what commands import late, and compile, so that templates and models are ready."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # As every call does.
    for module in pkgutil.walk_packages(compiler.__path__, "compiler."):
        importlib.import_module(module.name)
    here = os.open(".", os.O_RDONLY)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        for arguments in (("init",), ("compile", "--no-cache"), ("plan",), ("config", "output")):
            assert cli.main(("-C", folder, *arguments)) == 0
        os.fchdir(here)
    os.close(here)


def answer(connection: socket.socket) -> NoReturn:
    """Run one call, and send its exit code when nothing of it is open any more."""

    def end(status: int) -> NoReturn:
        os.closerange(0, connection.fileno())
        os.closerange(connection.fileno() + 1, _DESCRIPTORS)
        connection.send(str(status).encode())
        _end(0)

    message, streams, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, 3)
    folder, count, *words = message.split(b"\0")
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(dict(word.split(b"=", 1) for word in words[int(count) :]))
    sys.argv = ["kae", *map(os.fsdecode, words[: int(count)])]
    os._exit = end
    end(called())


def called() -> int:
    """Return the exit code of an entry point that does not end the process itself, as the interpreter would."""
    code: object = 1
    try:
        entry.main()
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


if __name__ == "__main__":
    serve(sys.argv[1])
