"""An HTTP server on the loopback address that can drop its connections at any time."""

import contextlib
import http.server
import socket
import socketserver
from collections.abc import Callable
from typing import Any


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A threading HTTP server that knows its open connections."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, port: int, handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> None:
        """Listen; port 0 takes a free one."""
        super().__init__(("127.0.0.1", port), handler)
        self._connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, and remember it."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that end in the middle of an answer; tests cause them."""

    def drop(self) -> None:
        """End all connections."""
        for connection in tuple(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
