"""The devices that the kubelet gets for a resource."""

from pathlib import Path

import pytest

from device_plugin.kubelet import advertised
from tests.device_plugin import hosts, machines, settings
from tests.device_plugin.functions import Function

HPRE = settings.kind("hpre").resource
A, B = "0000:79:00.0", "0000:b9:00.0"


def told(host: hosts.Host, count: int = 1, resource: str = HPRE) -> dict[str, tuple[bool, int | None]]:
    """Health and NUMA node of each share of a resource."""
    devices = [device for device in settings.offered(host) if device.resource == resource]
    return {
        replica.id: (replica.healthy, replica.numa_node)
        for replica in advertised.replicas(devices, count, settings.scanned(host).numa_nodes)
    }


def pair(root: Path, numa: int) -> hosts.Host:
    """A host with two NUMA nodes and two devices, the second of which says this node of itself."""
    host = hosts.Host(root, numa_nodes=2)
    host.add(Function(address=A, kind=machines.KIND["hpre"], numa=0))
    host.add(Function(address=B, kind=machines.KIND["hpre"], numa=numa))
    return host


def test_a_shared_device_is_told_once_for_each_share(tmp_path: Path) -> None:
    assert told(machines.bare_metal(tmp_path), 3) == {
        A: (True, 0),
        f"{A}::1": (True, 0),
        f"{A}::2": (True, 0),
        B: (True, 1),
        f"{B}::1": (True, 1),
        f"{B}::2": (True, 1),
    }


def test_every_share_of_an_unhealthy_device_is_unhealthy(tmp_path: Path) -> None:
    found = told(machines.one_isolated(tmp_path), 2)

    assert {name: healthy for name, (healthy, _) in found.items()} == {
        A: False,
        f"{A}::1": False,
        B: True,
        f"{B}::1": True,
    }


@pytest.mark.parametrize("numa", [-1, 2, 7])
def test_one_device_without_a_node_that_the_machine_knows_takes_it_from_all(numa: int, tmp_path: Path) -> None:
    assert told(pair(tmp_path, numa)) == {A: (True, None), B: (True, None)}


def test_the_topology_of_one_resource_is_nothing_to_another(tmp_path: Path) -> None:
    host = pair(tmp_path, -1)
    host.add(Function(address="0000:75:00.0", kind=machines.KIND["zip"], numa=1))

    assert told(host, resource=settings.kind("zip").resource) == {"0000:75:00.0": (True, 1)}


@pytest.mark.parametrize("index", [0, 1, 127])
def test_the_address_is_found_in_every_id(index: int) -> None:
    assert advertised.address_of(advertised.replica_id(A, index)) == A


def test_an_id_fits_into_what_the_api_allows() -> None:
    # api.proto of kubernetes/kubelet: at most 63 characters.
    assert len(advertised.replica_id("ffffffff:ff:1f.7", 127)) <= 63
