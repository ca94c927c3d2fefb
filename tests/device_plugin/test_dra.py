"""The interface DRA: the running program between a kubelet and an API server, both stand-ins over real sockets."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from device_plugin.api import dra_health_v1alpha1_pb2 as health_pb
from device_plugin.dra import claim_service, claims, driver, publisher
from device_plugin.host import paths
from device_plugin.kubelet import service
from runtime import device_plugin_config as config
from tests.device_plugin import connections, settings
from tests.device_plugin.dra_nodes import DRIVER, made, until

A, B = "hpre-0000-79-00-0", "hpre-0000-b9-00-0"
ADDRESS = "0000:79:00.0"
HPRE = settings.kind("hpre").resource


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "_PAUSE_S", 0.01)
    monkeypatch.setattr(driver, "_HELD_S", 0.01)
    monkeypatch.setattr(claim_service, "RETRY_S", 0.01)
    monkeypatch.setattr(claim_service, "WIPED_S", 0.01)


def taints(device: dict[str, Any]) -> list[str]:
    return [taint["key"] for taint in device.get("taints", ())]


async def test_the_scheduler_sees_each_device_with_what_it_can_be_chosen_by(short_path: Path) -> None:
    async with made(short_path) as node, node.working():
        await until(lambda: len(node.server.devices) == 6)

        assert node.server.devices[A] == {
            "name": A,
            "attributes": {
                "resource": {"string": HPRE},
                "numaNode": {"int": 0},
                "resource.kubernetes.io/pciBusID": {"string": ADDRESS},
                "kind": {"string": "hpre"},
                "virtual": {"bool": False},
                "module": {"string": "hisi_hpre"},
                "api": {"string": "hisi_qm_v2"},
                "generation": {"version": "2.0.0"},
                "alg_dh": {"bool": True},
                "alg_rsa": {"bool": True},
            },
            "capacity": {"queues": {"value": "256"}},
        }
        (slice_,) = node.server.slices.values()
        assert slice_["spec"]["nodeName"] == "n"
        assert slice_["spec"]["pool"] == {"name": "n", "generation": 1, "resourceSliceCount": 1}


async def test_it_is_ready_once_the_kubelet_has_it_and_the_scheduler_sees_the_devices(short_path: Path) -> None:
    async with made(short_path) as node:
        ready = short_path / "program/ready"
        node.server.refusal = (403, "no right")
        async with node.working(), node.kubelet():
            await asyncio.sleep(0.05)
            assert not ready.exists()
            node.server.refusal = None
            await until(ready.exists)
            assert ready.read_text() == "The kubelet has the driver, and the scheduler sees the devices.\n"


async def test_a_claim_gets_the_device_node_and_the_masks_of_sysfs(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("c", A)
        node.host.node(ADDRESS).chmod(0o660)
        os.chown(node.host.node(ADDRESS), 0, 994)

        answer = await node.prepare(kubelet, "c")

        assert answer.error == ""
        (device,) = answer.devices
        assert (list(device.request_names), device.pool_name, device.device_name) == (["accelerator"], "n", A)
        assert list(device.cdi_device_ids) == [f"{DRIVER}/device={A}"]
        status = node.host.node(ADDRESS).stat()
        edits = node.cdi_device(A)
        assert edits is not None
        entry = node.host.states()[ADDRESS].entry
        number = paths.number(ADDRESS)
        assert edits["deviceNodes"] == [
            {
                "path": f"/dev/hisi_hpre-{number}",
                "hostPath": f"/dev/{entry}",
                "type": "c",
                "major": os.major(status.st_rdev),
                "minor": os.minor(status.st_rdev),
                "fileMode": 0o660,
                "uid": 0,
                "gid": 994,
                "permissions": "rw",
            }
        ]
        assert [mount["containerPath"] for mount in edits["mounts"]] == [f"/run/kae/uacce/given/hisi_hpre-{number}"]
        (mask,) = node.cdi()["containerEdits"]["mounts"]
        assert (mask["containerPath"], mask["hostPath"]) == ("/sys/class/uacce", str(node.where.shown))


async def test_a_claim_is_prepared_again_with_the_same_answer_and_ended_as_often_as_asked(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("c", A)

        first, second = await node.prepare(kubelet, "c"), await node.prepare(kubelet, "c")
        ends = [await node.end(kubelet, "c") for _ in range(2)]

        assert first == second
        assert ends == ["", ""]
        assert json.loads(node.where.claims.read_text())["claims"] == {}


async def test_a_claim_of_that_name_with_another_uid_is_refused(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("c", A)
        node.server.claims["c"]["metadata"]["uid"] = "another"

        assert (await node.prepare(kubelet, "c")).error == "The claim default/c is another one by now."


async def test_a_device_that_a_claim_still_has_is_given_to_no_other_one(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("first", A)
        node.server.allocate("second", A)
        await node.prepare(kubelet, "first")

        refused = await node.prepare(kubelet, "second")
        await node.end(kubelet, "first")
        taken = await node.prepare(kubelet, "second")

        assert refused.error == f"Device {A} is not free yet: the claim default/first has it."
        assert [device.device_name for device in taken.devices] == [A]


async def test_while_the_driver_is_changed_devices_are_tainted_and_claims_wait(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        node.server.allocate("c", A)
        node.host.set_driver_changing("a test")

        refused = await node.prepare(kubelet, "c")
        await until(lambda: taints(node.server.devices[A]) == ["openfuyao.com/driver-changing"])
        assert node.cdi_device(A) is None
        node.host.set_driver_changing(None)
        await until(lambda: taints(node.server.devices[A]) == [])

        assert refused.error == f"Device {ADDRESS} of {HPRE} is unhealthy: The driver of the node is being changed."
        assert (await node.prepare(kubelet, "c")).error == ""


async def test_slices_that_a_kubelet_or_a_person_deletes_are_written_again(short_path: Path) -> None:
    async with made(short_path) as node, node.working():
        await until(lambda: node.server.devices)
        for _ in range(3):
            node.server.wipe()
            await until(lambda: len(node.server.devices) == 6)
        (name,) = node.server.slices
        node.server.slices[name]["spec"]["devices"] = []
        node.server.tell()
        await until(lambda: len(node.server.devices) == 6)


async def test_what_ends_takes_its_slices_with_it(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working():
            await until(lambda: node.server.devices)

        assert node.server.slices == {}


async def test_an_api_server_that_was_away_is_caught_up_with(short_path: Path) -> None:
    async with made(short_path) as node, node.working():
        await until(lambda: node.server.devices)
        node.server.down()
        node.host.set_isolate(ADDRESS, 1)
        await asyncio.sleep(0.05)
        await node.server.up()

        await until(lambda: taints(node.server.devices[A]) == ["openfuyao.com/unhealthy"])


async def test_fields_that_the_api_server_drops_are_told(short_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with made(short_path) as node:
        node.server.drops = ("capacity",)
        async with node.working():
            await until(lambda: any("without some of their fields" in str(each.__dict__) for each in caplog.records))

        assert not (short_path / "program/ready").exists()


async def test_where_watches_are_refused_slices_are_listed_less_and_less_often(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[float] = []
    paused = publisher.Publisher._paused

    async def noted(self: publisher.Publisher, pause_s: float) -> float:
        asked.append(pause_s)
        return await paused(self, pause_s)

    monkeypatch.setattr(publisher.Publisher, "_paused", noted)
    monkeypatch.setattr(publisher, "_LONGEST_PAUSE_S", 0.08)
    async with made(short_path) as node:
        node.server.watch_refusal = 429
        async with node.working():
            await until(lambda: len(asked) >= 5)
            # What changes is published all the same.
            node.host.set_isolate(ADDRESS, 1)
            await until(lambda: taints(node.server.devices[A]) == ["openfuyao.com/unhealthy"])

    assert asked[:5] == [0.01, 0.02, 0.04, 0.08, 0.08]
    told = [each for each in caplog.records if each.getMessage() == "The slices cannot be watched."]
    assert len(told) == 1


async def test_no_write_follows_from_a_look_that_finds_nothing_new(short_path: Path) -> None:
    async with made(short_path) as node, node.working():
        await until(lambda: node.server.devices)
        writes = len(node.server.writes)
        for _ in range(3):
            node.server.tell()
            await asyncio.sleep(0.03)

        assert len(node.server.writes) == writes


async def test_the_health_of_devices_is_told_with_the_reason(short_path: Path) -> None:
    async with made(short_path) as node, node.working():
        async with node.kubelet():
            (socket,) = node.where.sockets.glob("dra-*.sock")
            channel = await connections.dialled(socket, 30)
            stub = connections.Stub(channel, health_pb.DESCRIPTOR.services_by_name["DRAResourceHealth"])
            stream = stub.NodeWatchResources(health_pb.NodeWatchResourcesRequest())
            first = await stream.read()
            node.host.set_isolate(ADDRESS, 1)
            told = await stream.read()
            await channel.close()

        assert {device.health for device in first.devices} == {health_pb.HEALTHY}
        assert {device.device.device_name: device.message for device in told.devices if device.message} == {
            A: "The kernel has isolated it after hardware errors."
        }


async def test_a_device_that_vanishes_while_a_claim_has_it_stays_to_be_seen(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("c", A)
        await node.prepare(kubelet, "c")
        node.host.unplug(ADDRESS)
        node.host.unplug("0000:b9:00.0")

        await until(lambda: node.server.devices and B not in node.server.devices)
        assert taints(node.server.devices[A]) == ["openfuyao.com/lost"]
        assert node.cdi_device(A) is None
        await node.end(kubelet, "c")
        await until(lambda: A not in node.server.devices)


async def test_a_renumbered_device_has_its_new_numbers_at_the_same_path(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("c", A)
        await node.prepare(kubelet, "c")
        before = node.cdi_device(A)
        node.host.renumber()

        await until(lambda: node.cdi_device(A) not in (before, None))
        after = node.cdi_device(A)
        assert after is not None
        assert before is not None
        assert after["deviceNodes"][0]["path"] == before["deviceNodes"][0]["path"]
        status = node.host.node(ADDRESS).stat()
        assert after["deviceNodes"][0]["minor"] == os.minor(status.st_rdev)


async def test_shared_queues_are_amounts_and_a_claim_is_told_its_own(short_path: Path) -> None:
    async with (
        made(short_path) as node,
        node.working(dra=config.Dra(queues="Shared")),
        node.kubelet() as kubelet,
    ):
        await until(lambda: node.server.devices)
        device = node.server.devices[A]
        for name in ("one", "two"):
            node.server.allocate(name, A, shareID=f"share-{name}", consumedCapacity={"queues": "64"})
        answers = [await node.prepare(kubelet, name) for name in ("one", "two")]

        assert device["allowMultipleAllocations"] is True
        assert device["capacity"]["queues"] == {
            "value": "256",
            "requestPolicy": {"default": "256", "validRange": {"min": "1", "step": "1"}},
        }
        assert [answer.devices[0].share_id for answer in answers] == ["share-one", "share-two"]
        assert list(answers[0].devices[0].cdi_device_ids)[1] == f"{DRIVER}/claim=uid-of-one-accelerator"
        written = json.loads((node.where.cdi / f"{DRIVER}-claim-uid-of-one.json").read_text())
        assert written["devices"][0]["containerEdits"] == {"env": [f"KAE_QUEUES_{paths.number(ADDRESS)}=64"]}
        await node.end(kubelet, "one")
        assert not (node.where.cdi / f"{DRIVER}-claim-uid-of-one.json").exists()


async def test_files_of_cdi_that_somebody_removes_are_written_again(short_path: Path) -> None:
    async with made(short_path) as node, node.working(dra=config.Dra(queues="Shared")), node.kubelet() as kubelet:
        node.server.allocate("c", A, shareID="share", consumedCapacity={"queues": "64"})
        await node.prepare(kubelet, "c")
        files = sorted(node.where.cdi.iterdir())
        for path in files:
            path.unlink()

        assert len(files) == 2
        await until(lambda: sorted(node.where.cdi.glob("*.json")) == files)


async def test_devices_in_use_do_not_lower_the_number_of_queues(short_path: Path) -> None:
    async with made(short_path) as node, node.working() as program:
        await until(lambda: node.server.devices)
        node.host.set_available_instances(ADDRESS, 3)
        await program.look()
        await asyncio.sleep(0.03)

        assert node.server.devices[A]["capacity"]["queues"]["value"] == "256"


async def test_what_a_device_plugin_gave_is_given_to_no_claim_until_it_is_free(short_path: Path) -> None:
    async with made(short_path) as node:
        node.given.given = {HPRE: (ADDRESS,)}
        async with node.working(), node.kubelet() as kubelet:
            await until(lambda: node.server.devices)
            seen = taints(node.server.devices[A])
            node.server.allocate("c", A)
            refused = await node.prepare(kubelet, "c")
            node.given.given = {}
            await until(lambda: taints(node.server.devices[A]) == [])
            taken = await node.prepare(kubelet, "c")

        assert seen == ["openfuyao.com/given-by-device-plugin"]
        assert refused.error.endswith("A container has it from the device plugin that was here before.")
        assert taken.error == ""


async def test_what_a_device_plugin_gave_late_is_known_when_a_claim_wants_it(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        node.server.allocate("c", A)
        node.given.given = {HPRE: (f"{ADDRESS}::1",)}

        assert "device plugin" in (await node.prepare(kubelet, "c")).error


async def test_nothing_is_offered_before_the_kubelet_says_what_a_device_plugin_gave(short_path: Path) -> None:
    async with made(short_path) as node:
        socket = node.where.pod_resources
        socket.rename(socket.with_suffix(".away"))
        async with node.working():
            await asyncio.sleep(0.1)
            assert node.server.slices == {}
            assert not list(node.where.sockets.glob("*.sock"))
            socket.with_suffix(".away").rename(socket)
            await until(lambda: node.server.devices)


async def test_back_at_a_device_plugin_claims_keep_their_devices_until_they_end(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working(), node.kubelet() as kubelet:
            node.server.allocate("c", A)
            await node.prepare(kubelet, "c")
        assert node.server.slices == {}

        async with node.working(interface="DevicePlugin") as program:
            async with node.kubelet() as kubelet:
                assert settings.told(program) == {ADDRESS: False, "0000:b9:00.0": True}
                with pytest.raises(service.Refusal, match="The claim default/c has it"):
                    await program.allocate(HPRE, [ADDRESS])
                late = await node.prepare(kubelet, "late")
                assert await node.end(kubelet, "c") == ""
                assert settings.told(program) == {ADDRESS: True, "0000:b9:00.0": True}
                assert await node.end(kubelet, "late") == ""
            await until(lambda: not list(node.where.sockets.glob("dra-*.sock")))

        assert late.error == "The devices of this node are offered by a device plugin: have the pod scheduled anew."


@pytest.mark.parametrize("is_away", [False, True])
async def test_slices_that_could_not_be_deleted_are_remembered(is_away: bool, short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working():
            await until(lambda: node.server.devices)
            if is_away:
                node.server.refusal = (503, "a test")

        assert claims.Claims(node.where.claims).is_published is is_away


async def test_a_restarted_driver_knows_its_claims(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working(), node.kubelet() as kubelet:
            node.server.allocate("first", A)
            await node.prepare(kubelet, "first")
        async with node.working(), node.kubelet() as kubelet:
            node.server.allocate("second", A)

            assert "not free yet" in (await node.prepare(kubelet, "second")).error
            assert (await node.prepare(kubelet, "first")).error == ""


async def test_tokens_are_devices_each_and_a_claim_of_several_is_one_request(short_path: Path) -> None:
    token = config.Token(name="example.com/seat", count=70)
    async with (
        made(short_path) as node,
        node.working(resources=(token,), kinds=()),
        node.kubelet() as kubelet,
    ):
        await until(lambda: len(node.server.devices) == 70)
        node.server.allocate("c", "seat-441eec-1", "seat-441eec-69")

        answer = await node.prepare(kubelet, "c")

        assert [device.device_name for device in answer.devices] == ["seat-441eec-1", "seat-441eec-69"]
        assert {item["spec"]["pool"]["resourceSliceCount"] for item in node.server.slices.values()} == {2}
        assert sorted(len(item["spec"]["devices"]) for item in node.server.slices.values()) == [6, 64]


async def test_functions_of_vfio_are_told_to_a_container_all_at_once(short_path: Path) -> None:
    async with made(short_path) as node:
        node.host.set_vfs(ADDRESS, 2)
        node.host.lend("0000:79:00.1", 41)
        node.host.lend("0000:79:00.2", 42)
        async with node.working(resources=(settings.vfio(),), kinds=settings.KINDS[:1]), node.kubelet() as kubelet:
            await until(lambda: len(node.server.devices) == 2)
            node.server.allocate("c", *node.server.devices)
            answer = await node.prepare(kubelet, "c")

        assert answer.error == ""
        written = json.loads((node.where.cdi / f"{DRIVER}-claim-uid-of-c.json").read_text())
        assert "PCIDEVICE_OPENFUYAO_COM_KAE_HPRE_VFIO=0000:79:00.1,0000:79:00.2" in str(written)
