"""Metrics are there for Prometheus, on a port that is given back."""

import http.client
import socket
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import errors, metrics

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a server look every 10 ms whether it was closed, instead of every 500."""
    monkeypatch.setattr(socketserver.BaseServer.serve_forever, "__defaults__", (0.01,))


def one_gauge() -> Iterator[metrics.Family]:
    yield metrics.Family("kae_devices", "Devices.", [(("hpre",), 2)], labels=("kind",))


@pytest.fixture
def server() -> Iterator[metrics.Server]:
    """A server of that registry on a free port."""
    found = metrics.serve(one_gauge, 0)
    yield found
    found.close()


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
def test_a_scrape_finds_the_metrics_at_every_address(server: metrics.Server, address: str) -> None:
    assert 'kae_devices{kind="hpre"} 2.0\n' in scrape(address, server.port)


def test_a_machine_without_ipv6_is_served_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    # An address of documentation (RFC 3849) belongs to no machine, as :: to none without IPv6.
    monkeypatch.setattr(metrics, "_ADDRESSES", ("2001:db8::1", "127.0.0.1"))

    server = metrics.serve(one_gauge, 0)

    assert "kae_devices" in scrape("127.0.0.1", server.port)
    server.close()


def test_a_port_in_use_is_a_failure(server: metrics.Server) -> None:
    with pytest.raises(errors.Failure) as caught:
        metrics.serve(one_gauge, server.port)

    assert str(caught.value) == f"Metrics cannot be served at port {server.port}: Address already in use."


def test_a_closed_server_frees_its_port() -> None:
    first = metrics.serve(one_gauge, 0)
    first.close()

    second = metrics.serve(one_gauge, first.port)

    assert second.port == first.port
    second.close()


def test_a_program_without_metrics_does_not_load_the_library() -> None:
    script = "import sys, runtime.metrics; print('prometheus_client' in sys.modules)"
    command = [sys.executable, "-c", script]

    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)

    assert found.stdout == "False\n"
