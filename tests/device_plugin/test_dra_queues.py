"""The queues of devices as the scheduler counts them, by the interface DRA."""

import json
import os
from pathlib import Path

import pytest

from device_plugin.dra import claim_service, quantities
from runtime import device_plugin_config as config
from tests.device_plugin import dra_faults
from tests.device_plugin.dra_nodes import DRIVER, made, until

A = "hpre-0000-79-00-0"
ADDRESS = "0000:79:00.0"
SHARED = config.Dra(queues="Shared")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    dra_faults.quicken(monkeypatch.setattr)
    monkeypatch.setattr(claim_service, "WIPED_S", 0.01)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("64", 64),
        ("1k", 1000),
        ("0.1k", 100),
        (".5k", 500),
        ("1Ki", 1024),
        ("1.5Ki", 1536),
        ("2M", 2_000_000),
        ("1500m", 2),
        ("1n", 1),
        ("12e2", 1200),
        ("12E-1", 2),
        ("5E", 5 * 10**18),
        ("+3", 3),
        ("-3", -3),
        ("0", 0),
    ],
)
def test_quantities_are_read_as_numbers(text: str, whole: int) -> None:
    assert quantities.whole(text) == whole


@pytest.mark.parametrize("text", ["", "k", ".", "1kk", "1 k", "1e", "1K", "0x10", "1ki", "1e1000", "\u0661"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantities.nano(text)


async def test_a_number_that_the_api_server_writes_otherwise_is_the_same(short_path: Path) -> None:
    async with made(short_path) as node:
        ready = short_path / "program/ready"
        async with node.working(dra=SHARED), node.kubelet():
            await until(ready.exists)
            node.host.set_available_instances(ADDRESS, 1000)
            await until(lambda: node.server.devices[A]["capacity"]["queues"]["value"] == "1k")
            writes = len(node.server.writes)
            for _ in range(2):
                node.server.reads.clear()
                node.server.tell()
                # They are listed, and watched again.
                await until(lambda: len(node.server.reads) >= 2)

            assert ready.exists()
            assert len(node.server.writes) == writes


async def test_a_container_is_told_its_amount_in_digits(short_path: Path) -> None:
    async with made(short_path) as node, node.working(dra=SHARED), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        node.server.allocate("c", A, shareID="s", consumedCapacity={"queues": "1k"})
        await node.prepare(kubelet, "c")

        written = json.loads((node.where.cdi / f"{DRIVER}-claim-uid-of-c.json").read_text())
        assert written["devices"][0]["containerEdits"] == {"env": ["KAE_QUEUES_30976=1000"]}


async def test_an_amount_that_is_none_refuses_its_claim_alone(short_path: Path) -> None:
    async with made(short_path) as node, node.working(dra=SHARED), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        node.server.allocate("odd", A, shareID="s", consumedCapacity={"queues": "lots"})
        node.server.allocate("good", A, shareID="t", consumedCapacity={"queues": "2"})

        odd, good = await node.prepare(kubelet, "odd"), await node.prepare(kubelet, "good")

        assert odd.error == f"The claim's amount of queues of device {A}: 'lots' is no quantity."
        assert good.error == ""


@pytest.mark.parametrize("free", [192, 0])
async def test_a_restart_while_queues_are_in_use_does_not_lower_their_number(free: int, short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working(dra=SHARED):
            await until(lambda: node.server.devices)
        node.host.set_available_instances(ADDRESS, free)
        async with node.working(dra=SHARED):
            await until(lambda: node.server.devices)

            assert node.server.devices[A]["capacity"]["queues"]["value"] == "256"
            assert "taints" not in node.server.devices[A]


async def test_a_driver_that_is_loaded_anew_may_have_fewer_queues(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working():
            await until(lambda: node.server.devices)
        node.host.unbind(ADDRESS)
        node.host.bind(ADDRESS, number=9)
        node.host.set_available_instances(ADDRESS, 64)
        async with node.working():
            await until(lambda: node.server.devices)

            assert node.server.devices[A]["capacity"]["queues"]["value"] == "64"


async def test_no_fewer_queues_are_published_than_claims_have(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working(dra=SHARED), node.kubelet() as kubelet:
            for name in ("one", "two"):
                node.server.allocate(name, A, shareID=name, consumedCapacity={"queues": "100"})
                await node.prepare(kubelet, name)
        stored = json.loads(node.where.claims.read_text())
        node.where.claims.write_text(json.dumps(stored | {"queues": {}}))
        node.host.set_available_instances(ADDRESS, 56)
        async with node.working(dra=SHARED):
            await until(lambda: node.server.devices)

            assert node.server.devices[A]["capacity"]["queues"]["value"] == "200"


async def test_a_device_of_unknown_queues_is_not_given_as_a_whole_where_they_are_shared(short_path: Path) -> None:
    async with made(short_path) as node:
        node.host.set_available_instances(ADDRESS, 0)
        async with node.working(dra=SHARED):
            await until(lambda: node.server.devices)
            (taint,) = node.server.devices[A]["taints"]
            node.host.set_available_instances(ADDRESS, 256)
            node.host.set_isolate("0000:b9:00.0", 1)  # It is looked at again.
            await until(lambda: "taints" not in node.server.devices[A])

        assert (taint["key"], taint["value"]) == ("openfuyao.com/unhealthy", "QueuesUnknown")


async def test_a_name_that_another_slice_has_is_not_waited_for(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working():
            await until(lambda: node.server.devices)
            (first,) = node.server.slices
            node.server.taken = [first]
            node.server.wipe()
            await until(lambda: node.server.devices)
            (second,) = node.server.slices

        assert first.startswith("n-kae-")
        assert second.startswith("n-kae-")
        assert first != second


@pytest.mark.parametrize("place", ["folder", "pipe"])
async def test_what_is_in_the_place_of_the_file_of_cdi_taints_all_or_is_replaced(place: str, short_path: Path) -> None:
    async with made(short_path) as node:
        path = node.where.cdi / f"{DRIVER}-device.json"
        node.where.cdi.mkdir()
        path.mkdir() if place == "folder" else os.mkfifo(path)
        async with node.working():
            await until(lambda: node.server.devices)
            if place == "folder":
                (taint,) = node.server.devices[A]["taints"]
                assert (taint["key"], taint["value"]) == ("openfuyao.com/unhealthy", "HostPath")
                path.rmdir()
            await until(lambda: node.cdi_device(A) and "taints" not in node.server.devices[A])
