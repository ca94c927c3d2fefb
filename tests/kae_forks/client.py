"""Send a call of kae, with this process's folder, variables and standard streams, to the server that forks for it.

It imports nothing that is not part of the interpreter, so that it starts at once. A signal to it does not reach the
fork: tests of signals start the real one.
"""

import _socket
import array
import os


def call(server: str, arguments: list[str]) -> int:
    """Return the exit code of a call; 70 where the fork died."""
    variables = (name + b"=" + value for name, value in os.environb.items())
    words = (os.getcwdb(), str(len(arguments)).encode(), *map(os.fsencode, arguments), *variables)  # noqa: PTH109
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    connection.connect(server)
    streams = array.array("i", (0, 1, 2))
    connection.sendmsg((b"\0".join(words),), ((_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams),))
    return int(connection.recv(16) or b"70")
