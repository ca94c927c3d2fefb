"""Answer calls of kae in forks of one process, which has imported the compiler once; a call costs a tenth so."""

import gc
import os
import socket
import sys

from compiler import cli, pipeline
from compiler.commands import compile as compile_command
from compiler.commands import explain, import_, init, plan, preflight
from compiler.project import load
from compiler.rendering import templates

IMPORTED = (compile_command, explain, import_, init, load, pipeline, plan, preflight, templates)


def serve(path: str) -> None:
    """Accept calls: standard streams as file descriptors, then the folder and the arguments."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        gc.disable()
        gc.freeze()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                os._exit(answer(connection))
            connection.close()


def answer(connection: socket.socket) -> int:
    """Run one call, and send its exit code."""
    message, streams, _, _ = socket.recv_fds(connection, 65536, 3)
    folder, *arguments = message.decode().split("\0")
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    code = called(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(str(code).encode())
    return 0


def called(arguments: list[str]) -> int:
    """Return the exit code of a call."""
    try:
        return cli.main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


if __name__ == "__main__":
    serve(sys.argv[1])
