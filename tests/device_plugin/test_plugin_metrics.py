"""Metrics say what the kubelet was told, under the names that the alerts use."""

import asyncio
from pathlib import Path

import prometheus_client
import pytest

from device_plugin import loop, plugin, plugin_metrics
from device_plugin.kubelet.service import Refusal
from runtime import state
from runtime.metrics import registry_of
from tests import metrics
from tests.device_plugin import hosts, machines, settings

A, B = "0000:79:00.0", "0000:b9:00.0"
HPRE = settings.kind("hpre").resource
ZIP = settings.kind("zip").resource


class Node:
    """A plugin that has looked, its registrations, and its metrics."""

    def __init__(self, host: hosts.Host) -> None:
        stated = settings.settings(settings.uacce(shares=3), settings.uacce("sec"), settings.uacce("zip"))
        self.plugin = plugin.Plugin(settings.where(host), stated)
        asyncio.run(self.plugin.look())
        self.registrations = loop.Loop(self.plugin, state.ProgramDir(host.run), rescan_s=30).registrations
        self.registry = registry_of(lambda: plugin_metrics.families(self.plugin, self.registrations))

    def value(self, name: str, **labels: str) -> float | None:
        """A sample; None where there is none."""
        return self.registry.get_sample_value(f"kae_device_plugin_{name}", labels)


def test_a_device_counts_once_however_often_it_is_shared(tmp_path: Path) -> None:
    node = Node(machines.one_isolated(tmp_path))

    assert node.value("devices", resource=HPRE, health="Healthy", numa_node="0") == 0
    assert node.value("devices", resource=HPRE, health="Unhealthy", numa_node="0") == 1
    assert node.value("devices", resource=HPRE, health="Healthy", numa_node="1") == 1
    assert node.value("devices", resource=HPRE, health="Unhealthy", numa_node="1") == 0


def test_a_resource_without_devices_is_zero_and_not_absent(tmp_path: Path) -> None:
    node = Node(machines.virtual_machine(tmp_path))

    assert node.value("devices", resource=ZIP, health="Healthy", numa_node="") == 0
    assert node.value("devices", resource=HPRE, health="Healthy", numa_node="") == 1


def test_every_reason_is_told_and_goes_with_it(tmp_path: Path) -> None:
    host = machines.one_isolated(tmp_path)
    host.remove_node(A)
    node = Node(host)
    assert node.value("unhealthy", resource=HPRE, device=A, reason="Isolated") == 1
    assert node.value("unhealthy", resource=HPRE, device=A, reason="NoDeviceNode") == 1

    host.restore_node(A)
    asyncio.run(node.plugin.look())

    assert node.value("unhealthy", resource=HPRE, device=A, reason="Isolated") == 1
    assert node.value("unhealthy", resource=HPRE, device=A, reason="NoDeviceNode") is None


def test_free_queues_are_those_of_the_last_look(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.unbind(B)
    node = Node(host)
    host.set_available_instances(A, 7)
    assert node.value("free_queues", resource=HPRE, device=A) == 256

    asyncio.run(node.plugin.look())

    assert node.value("free_queues", resource=HPRE, device=A) == 7
    assert node.value("free_queues", resource=HPRE, device=B) is None


def test_answers_are_counted_from_zero(tmp_path: Path) -> None:
    node = Node(machines.bare_metal(tmp_path))
    for device in (A, B):
        asyncio.run(node.plugin.allocate(HPRE, [device]))
    with pytest.raises(Refusal):
        asyncio.run(node.plugin.allocate(HPRE, ["x"]))

    found = {
        (resource, result): node.value("allocations_total", resource=resource, result=result)
        for resource in (HPRE, ZIP)
        for result in ("succeeded", "failed")
    }
    assert found == {(HPRE, "succeeded"): 2, (HPRE, "failed"): 1, (ZIP, "succeeded"): 0, (ZIP, "failed"): 0}


def test_registrations_are_told_for_every_resource(tmp_path: Path) -> None:
    node = Node(machines.bare_metal(tmp_path))
    node.registrations[0].results["failed"] += 2

    assert [node.value("registered", resource=place.resource) for place in node.registrations] == [0, 0, 0]
    assert node.value("registrations_total", resource=HPRE, result="failed") == 2
    assert node.value("registrations_total", resource=ZIP, result="succeeded") == 0


def test_the_process_tells_of_itself(tmp_path: Path) -> None:
    text = prometheus_client.generate_latest(Node(machines.bare_metal(tmp_path)).registry).decode()

    assert "process_resident_memory_bytes" in text
    assert "python_gc" not in text


def test_every_name_and_label_that_alerts_and_dashboards_use_is_there(tmp_path: Path) -> None:
    metrics.assert_known(Node(machines.one_isolated(tmp_path)).registry, "kae_device_plugin", {"policy", "node"})
