"""Serve a program's metrics to Prometheus."""

import contextlib
import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from runtime import errors, shapes

if TYPE_CHECKING:
    import threading
    from wsgiref.simple_server import WSGIServer

    import prometheus_client
    from prometheus_client import core

# Every address of the pod: :: takes IPv4 too, where /proc/sys/net/ipv6/bindv6only is 0 (ipv6(7), the default).
_ADDRESSES = ("::", "0.0.0.0")  # noqa: S104 - Prometheus comes from another pod

# Without IPv6 in the kernel, and where it is disabled for the pod.
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class Family(msgspec.Struct, frozen=True):
    """A metric: a gauge, or a counter, to whose name Prometheus adds `_total`."""

    name: str
    meaning: str
    values: Iterable[tuple[Sequence[str], float]]
    """The values of the labels, and the number."""
    labels: tuple[str, ...] = ()
    counts: bool = False


Collect = Callable[[], Iterable[Family]]
"""Makes the metrics for each scrape, in the server's thread: it changes nothing."""


def registry_of(collect: Collect) -> "prometheus_client.CollectorRegistry":
    """Return a registry of a program's metrics and of those of the process."""
    # Its imports take 5 MiB, which a program without metrics saves.
    import prometheus_client  # noqa: PLC0415 - see above
    from prometheus_client import core, registry  # noqa: PLC0415 - see above

    class Collector(registry.Collector):
        def collect(self) -> "Iterator[core.Metric]":
            for family in collect():
                kind = core.CounterMetricFamily if family.counts else core.GaugeMetricFamily
                made = kind(family.name, family.meaning, labels=family.labels)
                for labels, value in family.values:
                    made.add_metric(labels, value)
                yield made

    made = prometheus_client.CollectorRegistry()
    made.register(Collector())
    prometheus_client.ProcessCollector(registry=made)
    return made


@contextlib.contextmanager
def served(endpoint: shapes.MetricsEndpoint | None, collect: Collect) -> Iterator[int | None]:
    """Return a context in which /metrics is served on all addresses, if the config has an endpoint, with its port.

    Port 0 is any free one. Raises `errors.Failure` when the port is not available.
    """
    if endpoint is None:
        yield None
        return
    server, thread = _started(endpoint.port, registry_of(collect))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _started(port: int, registry: "prometheus_client.CollectorRegistry") -> "tuple[WSGIServer, threading.Thread]":
    import prometheus_client  # noqa: PLC0415 - as above

    for address in _ADDRESSES:
        try:
            return prometheus_client.start_http_server(port, address, registry)
        except OSError as error:
            if address == _ADDRESSES[-1] or error.errno not in _NO_IPV6:
                raise errors.Failure(f"Metrics cannot be served at port {port}: {error.strerror}.") from error
    raise AssertionError("the last address is served or raises")
