"""Resources of the class token: numbers, and what keeps them from containers."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from device_plugin import plugin_metrics, report
from device_plugin.host import reading_process
from device_plugin.kubelet.service import Refusal
from runtime import device_plugin_config as config
from runtime import metrics
from tests.device_plugin import machines, settings
from tests.device_plugin.hangs import Hangs

ONLOAD, LATENCY = "amd.com/onload", "amd.com/onload-latency"
STATED = settings.settings(
    config.Token(name=ONLOAD, count=3, requires=("/dev/onload", "/opt/onload/usr/lib64/libonload.so")),
    config.Token(name=LATENCY, count=2, shares=2),
)


def test_tokens_are_numbers_and_have_no_numa_node(tmp_path: Path) -> None:
    node = settings.looked(machines.with_onload(tmp_path), STATED)

    assert settings.told(node, ONLOAD) == {"0": True, "1": True, "2": True}
    assert settings.told(node, LATENCY) == {"0": True, "0::1": True, "1": True, "1::1": True}
    lists = node.device_lists.values()
    assert {replica.numa_node for shown in lists for replica in shown.replicas} == {None}


@pytest.mark.parametrize("missing", ["dev/onload", "opt/onload/usr/lib64/libonload.so"])
def test_a_required_path_that_goes_takes_all_tokens_health_and_brings_it_back(tmp_path: Path, missing: str) -> None:
    node = settings.looked(machines.with_onload(tmp_path), STATED)

    (tmp_path / missing).rename(tmp_path / "gone")
    asyncio.run(node.look())
    assert set(settings.told(node, ONLOAD).values()) == {False}
    assert set(settings.told(node, LATENCY).values()) == {True}
    with pytest.raises(Refusal, match=f"Device 1 of amd.com/onload is unhealthy: /{missing} of the host is not there."):
        asyncio.run(node.allocate(ONLOAD, ["1"]))

    (tmp_path / "gone").rename(tmp_path / missing)
    asyncio.run(node.look())
    assert set(settings.told(node, ONLOAD).values()) == {True}


def test_a_link_is_followed_as_on_the_host(tmp_path: Path) -> None:
    host = machines.with_onload(tmp_path)
    (tmp_path / "opt/onload").rename(tmp_path / "opt/onload-8.1")
    (tmp_path / "opt/onload").symlink_to("/opt/onload-8.1")
    node = settings.looked(host, STATED)
    assert set(settings.told(node, ONLOAD).values()) == {True}

    (tmp_path / "opt/onload").unlink()
    (tmp_path / "opt/onload").symlink_to("/opt/onload")
    asyncio.run(node.look())
    assert set(settings.told(node, ONLOAD).values()) == {False}


def test_no_token_is_healthy_while_the_installer_changes_the_driver(tmp_path: Path) -> None:
    host = machines.with_onload(tmp_path)
    node = settings.looked(host, STATED)

    host.set_driver_changing("upgrade")
    asyncio.run(node.look())
    assert set(settings.told(node, ONLOAD).values()) | set(settings.told(node, LATENCY).values()) == {False}
    with pytest.raises(Refusal, match="The driver of the node is being changed"):
        asyncio.run(node.allocate(LATENCY, ["0"]))

    host.set_driver_changing(None)
    asyncio.run(node.look())
    assert set(settings.told(node, ONLOAD).values()) | set(settings.told(node, LATENCY).values()) == {True}


def test_a_file_system_without_an_answer_takes_the_health_of_its_resource_alone(tmp_path: Path, hangs: Hangs) -> None:
    node = settings.looked(machines.with_onload(tmp_path), STATED)

    with hangs.of(reading_process.RESOURCE + ONLOAD):
        asyncio.run(node.look())
        assert set(settings.told(node, ONLOAD).values()) == {False}
        assert set(settings.told(node, LATENCY).values()) == {True}
        with pytest.raises(Refusal, match="A read of its files on the host hangs: does their file system answer"):
            asyncio.run(node.allocate(ONLOAD, ["0"]))
    while not all(settings.told(node, ONLOAD).values()):
        asyncio.run(node.look())

    assert set(settings.told(node, LATENCY).values()) == {True}


def test_the_log_has_one_line_for_all_tokens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    host = machines.with_onload(tmp_path)
    node = settings.looked(host, STATED)
    (host.dev / "onload").unlink()
    asyncio.run(node.look())
    asyncio.run(node.look())

    logged = [(record.message, vars(record).get("resource"), vars(record).get("device")) for record in caplog.records]
    assert logged == [
        ("Device is healthy.", ONLOAD, "0 to 2"),
        ("Device is healthy.", LATENCY, "0 to 1"),
        ("Device is unhealthy.", ONLOAD, "0 to 2"),
    ]


def test_the_metrics_count_tokens_and_name_what_keeps_them(tmp_path: Path) -> None:
    host = machines.with_onload(tmp_path)
    (host.dev / "onload").unlink()
    node = settings.looked(host, STATED)
    registry = metrics.registry_of(lambda: plugin_metrics.families(node, ()))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kae_device_plugin_{name}", labels)

    assert value("devices", resource=ONLOAD, health="Unhealthy", numa_node="") == 3
    assert value("devices", resource=LATENCY, health="Healthy", numa_node="") == 2
    assert value("unhealthy", resource=ONLOAD, device="0", reason="Missing") == 1


def test_the_list_shows_the_tokens_and_what_is_missing(tmp_path: Path) -> None:
    host = machines.with_onload(tmp_path)
    (host.dev / "onload").unlink()

    made = asyncio.run(report.current(settings.where(host), STATED))

    table = report.as_table(made)
    assert "0-2       amd.com/onload          token" in table
    assert "Unhealthy  /dev/onload of the host is not there." in table
    assert "PCI bus" not in table
    found = json.loads(report.as_json(made))
    assert [resource["allocatable"] for resource in found["resources"]] == [0, 4]
    assert [(device["id"], device["health"]) for device in found["devices"]] == [
        ("0-2", "Unhealthy"),
        ("0-1", "Healthy"),
    ]
