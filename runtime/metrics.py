"""Serve a program's metrics to Prometheus."""

import errno
import threading
from typing import TYPE_CHECKING

from runtime import errors

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    import prometheus_client
    from prometheus_client.registry import Collector

# Every address of the pod: :: takes IPv4 too, where /proc/sys/net/ipv6/bindv6only is 0 (ipv6(7), the default).
_ADDRESSES = ("::", "0.0.0.0")  # noqa: S104 - Prometheus comes from another pod

# Without IPv6 in the kernel, and where it is disabled for the pod.
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class Server:
    """A running metrics server."""

    def __init__(self, server: "WSGIServer", thread: threading.Thread) -> None:
        self._server = server
        self._thread = thread

    @property
    def port(self) -> int:
        """Return the TCP port, also when port 0 chose a free one."""
        return self._server.server_port

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def registry_of(collector: "Collector") -> "prometheus_client.CollectorRegistry":
    """Return a registry of a collector's metrics and of the process metrics."""
    import prometheus_client  # noqa: PLC0415 - see below

    made = prometheus_client.CollectorRegistry()
    made.register(collector)
    prometheus_client.ProcessCollector(registry=made)
    return made


def serve(registry: "prometheus_client.CollectorRegistry", port: int) -> Server:
    """Serve /metrics on all addresses, in a thread of its own; port 0 is any free one.

    Raises `errors.Failure` when the port is not available.
    """
    # Its imports take 5 MiB, which a program without metrics saves.
    import prometheus_client  # noqa: PLC0415 - see above

    for address in _ADDRESSES:
        try:
            return Server(*prometheus_client.start_http_server(port, address, registry))
        except OSError as error:
            if address == _ADDRESSES[-1] or error.errno not in _NO_IPV6:
                raise errors.Failure(f"Metrics cannot be served at port {port}: {error.strerror}.") from error
    raise AssertionError("the last address is served or raises")
