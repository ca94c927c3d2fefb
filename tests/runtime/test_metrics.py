"""Metrics are there for Prometheus, on a port that is given back."""

import contextlib
import http.client
import socket
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import errors, metrics, shapes

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a server look every 10 ms whether it was closed, instead of every 500."""
    monkeypatch.setattr(socketserver.BaseServer.serve_forever, "__defaults__", (0.01,))


def one_gauge() -> Iterator[metrics.Family]:
    yield metrics.Family("kae_devices", "Devices.", [(("hpre",), 2)], labels=("kind",))


def serving(port: int = 0) -> contextlib.AbstractContextManager[int | None]:
    """Return the context of a server of that registry."""
    return metrics.served(shapes.MetricsEndpoint(port=port), one_gauge)


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server."""
    with serving() as found:
        assert found is not None
        yield found


def loopbacks() -> list[str]:
    """The loopback addresses of this machine; some have no IPv6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return ["127.0.0.1", "::1"]
    except OSError:
        return ["127.0.0.1"]


def scrape(address: str, port: int) -> str:
    """Return the text that Prometheus scrapes there."""
    connection = http.client.HTTPConnection(address, port, timeout=10)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    assert response.status == 200
    return text


@pytest.mark.parametrize("address", loopbacks())
def test_a_scrape_finds_the_metrics_at_every_address(port: int, address: str) -> None:
    assert 'kae_devices{kind="hpre"} 2.0\n' in scrape(address, port)


def test_a_machine_without_ipv6_is_served_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    # An address of documentation (RFC 3849) belongs to no machine, as :: to none without IPv6.
    monkeypatch.setattr(metrics, "_ADDRESSES", ("2001:db8::1", "127.0.0.1"))

    with serving() as port:
        assert "kae_devices" in scrape("127.0.0.1", port or 0)


def test_a_port_in_use_is_a_failure(port: int) -> None:
    with pytest.raises(errors.Failure) as caught, serving(port):
        pass

    assert str(caught.value) == f"Metrics cannot be served at port {port}: Address already in use."


def test_a_server_that_ends_frees_its_port() -> None:
    with serving() as first:
        pass

    with serving(first or 0) as second:
        assert second == first


def test_a_program_without_metrics_does_not_load_the_library() -> None:
    script = "import sys, runtime.metrics; print('prometheus_client' in sys.modules)"
    command = [sys.executable, "-c", script]

    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)

    assert found.stdout == "False\n"
