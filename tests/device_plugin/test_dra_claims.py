"""What claims have, by the interface DRA, is given to nobody else: whatever is renamed, restarted, lost or at once."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from device_plugin.dra import claim_service, claims, driver, forgotten
from runtime import device_plugin_config as config
from runtime import errors
from tests.device_plugin import dra_faults, settings
from tests.device_plugin.dra_nodes import DRIVER, Node, made, until

A, B = "hpre-0000-79-00-0", "hpre-0000-b9-00-0"
ADDRESS = "0000:79:00.0"
HPRE = settings.kind("hpre").resource
SHARED = config.Dra(queues="Shared")
GIVEN = [("openfuyao.com/given-by-claim", "GivenByClaim")]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    dra_faults.quicken(monkeypatch.setattr)
    monkeypatch.setattr(claim_service, "WIPED_S", 0.01)
    monkeypatch.setattr(driver, "_ADMITTED_S", 0.05)


def taints(node: Node, name: str) -> list[tuple[str, str]]:
    return [(taint["key"], taint["value"]) for taint in node.server.devices[name].get("taints", ())]


def remembered(node: Node) -> list[str]:
    return [claim["name"] for claim in json.loads(node.where.claims.read_text())["claims"].values()]


async def test_of_two_claims_that_are_prepared_at_once_one_gets_the_device(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        node.server.allocate("one", A)
        node.server.allocate("two", A)

        answers = await asyncio.gather(node.prepare(kubelet, "one"), node.prepare(kubelet, "two"))

        assert sorted(bool(answer.error) for answer in answers) == [False, True]


async def test_a_claim_that_ends_while_it_is_prepared_stays_ended(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        node.server.allocate("one", A)
        node.server.answers.clear()
        preparing = asyncio.create_task(node.prepare(kubelet, "one"))
        await until(lambda: "one" in node.server.reads)

        assert await node.end(kubelet, "one") == ""
        node.server.answers.set()
        assert (await preparing).error == "The claim default/one has ended meanwhile."
        assert remembered(node) == []


async def test_a_claim_without_a_device_of_this_node_is_refused(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        node.server.allocate("elsewhere", A, node="other")
        node.server.allocate("none", A)
        node.server.claims["none"]["status"] = {}

        for name in ("elsewhere", "none"):
            refused = await node.prepare(kubelet, name)
            assert refused.error == f"The claim default/{name} was given no device of this node."


async def test_names_of_devices_do_not_depend_on_other_resources(short_path: Path) -> None:
    seats = config.Token(name="example.com/seat", count=2)
    others = config.Token(name="other.org/seat", count=2)
    async with made(short_path) as node:
        async with node.working(resources=(seats,), kinds=()):
            await until(lambda: node.server.devices)
            before = set(node.server.devices)
        async with node.working(resources=(seats, others), kinds=()):
            await until(lambda: len(node.server.devices) == 4)

            assert before < set(node.server.devices)


async def test_names_of_kae_are_without_a_digest_whatever_their_sockets_are_called(short_path: Path) -> None:
    hpre = settings.uacce(socket="other")
    async with made(short_path) as node, node.working(resources=(hpre,), kinds=settings.KINDS[:1]):
        await until(lambda: node.server.devices)

        assert sorted(node.server.devices) == [A, B]


async def test_a_device_that_a_claim_has_by_an_earlier_name_is_given_to_no_other(short_path: Path) -> None:
    hpre, vendor = settings.uacce(), config.Uacce(name="example.com/engine", kind="hpre", inject=settings.inject())
    async with made(short_path) as node:
        async with node.working(resources=(hpre,), kinds=settings.KINDS[:1]), node.kubelet() as kubelet:
            node.server.allocate("c", A)
            before = await node.prepare(kubelet, "c")
        async with node.working(resources=(vendor,), kinds=settings.KINDS[:1]), node.kubelet() as kubelet:
            await until(lambda: len(node.server.devices) == 2)
            name = next(name for name in node.server.devices if name.endswith("79-00-0"))
            node.server.allocate("d", name)

            assert name != A
            assert taints(node, name) == GIVEN
            assert node.cdi_device(A) == node.cdi_device(name)
            assert (
                await node.prepare(kubelet, "d")
            ).error == f"Device {name} is not free yet: the claim default/c has it."
            assert await node.prepare(kubelet, "c") == before
            await node.end(kubelet, "c")
            await until(lambda: taints(node, name) == [])
            assert (await node.prepare(kubelet, "d")).error == ""


async def test_what_a_device_plugin_gave_by_an_earlier_name_is_given_to_no_claim(short_path: Path) -> None:
    async with made(short_path) as node:
        node.given.given = {"old.example.com/hpre": (ADDRESS,), "example.com/seat": ("0",)}
        async with node.working():
            await until(lambda: node.server.devices)

            assert taints(node, A) == [("openfuyao.com/given-by-device-plugin", "GivenByDevicePlugin")]
            assert taints(node, B) == []


async def test_a_claim_with_admin_access_keeps_devices_from_nobody_and_sees_those_that_fail(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working(), node.kubelet() as kubelet:
            await until(lambda: node.server.devices)
            node.host.set_isolate(ADDRESS, 1)
            node.server.allocate("monitor", A, B, adminAccess=True)
            taken = await node.prepare(kubelet, "monitor")
            node.host.set_isolate(ADDRESS, 0)
        async with node.working(interface="DevicePlugin") as program:
            await until(lambda: settings.told(program))
            told = settings.told(program)

        assert taken.error == ""
        assert [len(device.cdi_device_ids) for device in taken.devices] == [1, 1]
        assert told == {ADDRESS: True, "0000:b9:00.0": True}


async def test_a_claim_with_admin_access_does_without_a_device_that_has_no_node(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        node.host.remove_node(ADDRESS)
        await until(lambda: node.cdi_device(A) is None)
        node.server.allocate("monitor", A, B, adminAccess=True)

        taken = await node.prepare(kubelet, "monitor")

        assert [list(device.cdi_device_ids) for device in taken.devices] == [[], [f"{DRIVER}/device={B}"]]


async def test_a_pod_comes_back_with_a_device_that_has_failed_since(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("c", A)
        first = await node.prepare(kubelet, "c")
        node.host.set_isolate(ADDRESS, 1)
        await until(lambda: taints(node, A))

        assert await node.prepare(kubelet, "c") == first


async def test_a_pod_that_comes_back_waits_while_the_driver_is_changed(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("c", A)
        await node.prepare(kubelet, "c")
        node.host.set_driver_changing("a test")
        await until(lambda: taints(node, A))

        assert (await node.prepare(kubelet, "c")).error.endswith("has no device node that a container could open.")


async def test_back_at_a_device_plugin_a_claim_keeps_its_device_by_another_name_of_the_resource(
    short_path: Path,
) -> None:
    vendor = config.Uacce(name="example.com/engine", kind="hpre", inject=settings.inject())
    async with made(short_path) as node:
        async with node.working(), node.kubelet() as kubelet:
            node.server.allocate("c", A)
            await node.prepare(kubelet, "c")
        changes = {"interface": "DevicePlugin", "resources": (vendor,), "kinds": settings.KINDS[:1]}
        async with node.working(**changes) as program:
            await until(lambda: settings.told(program, vendor.name))

            assert settings.told(program, vendor.name) == {ADDRESS: False, "0000:b9:00.0": True}


async def test_back_at_a_device_plugin_a_socket_that_is_removed_is_made_again(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working(), node.kubelet() as kubelet:
            node.server.allocate("c", A)
            await node.prepare(kubelet, "c")
        async with node.working(interface="DevicePlugin"):
            await until(lambda: list(node.where.sockets.glob("dra-*.sock")))
            for path in node.where.sockets.glob("*.sock"):
                path.unlink()
            async with asyncio.timeout(10), node.kubelet() as kubelet:
                assert await node.end(kubelet, "c") == ""


async def test_a_claim_that_nobody_else_knows_is_tainted_and_then_forgotten(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(short_path) as node:
        async with node.working(), node.kubelet() as kubelet:
            node.server.allocate("gone", A)
            node.server.allocate("other", B)
            await node.prepare(kubelet, "gone")
            await node.prepare(kubelet, "other")
        del node.server.claims["gone"]
        node.server.claims["other"]["metadata"]["uid"] = "another"
        async with node.working(), node.kubelet() as kubelet:
            await until(lambda: node.server.devices and taints(node, A) == taints(node, B) == GIVEN)
            node.server.allocate("new", A)
            refused = await node.prepare(kubelet, "new")
            monkeypatch.setattr(forgotten, "_FORGOTTEN_S", 0)
            assert "not free yet" in (await node.prepare(kubelet, "new")).error
            await until(lambda: taints(node, A) == taints(node, B) == [])
            taken = await node.prepare(kubelet, "new")

        assert refused.error == f"Device {A} is not free yet: the claim default/gone has it."
        assert taken.error == ""


async def test_a_look_without_an_answer_neither_ends_a_claim_nor_begins_its_time_anew(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(short_path) as node:
        async with node.working(), node.kubelet() as kubelet:
            node.server.allocate("c", A)
            await node.prepare(kubelet, "c")
        del node.server.claims["c"]
        known = claims.Claims(node.where.claims)
        looking = forgotten.Forgotten(node.where, node.server.client(node.folder), known)
        assert await looking.look() == []
        since = dict(looking.unknown)
        monkeypatch.setattr(forgotten, "_FORGOTTEN_S", 0)
        node.server.refusal = (503, "a test")
        silent = (await looking.look(), dict(looking.unknown))
        node.server.refusal = None

        assert list(since) == ["uid-of-c"]
        assert silent == ([], since)
        assert await looking.look() == ["uid-of-c"]


@pytest.mark.parametrize("knows", ["kubelet", "server", "server-silent", "kubelet-silent"])
async def test_a_claim_that_one_of_both_may_know_is_not_forgotten(
    knows: str, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgotten, "_FORGOTTEN_S", 0)
    monkeypatch.setattr(forgotten, "_LOOK_S", 0.01)
    looks, look = [], forgotten.Forgotten.look

    async def counted(self: forgotten.Forgotten) -> list[str]:
        looks.append(await look(self))
        return looks[-1]

    monkeypatch.setattr(forgotten.Forgotten, "look", counted)
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        node.server.allocate("c", A)
        node.given.claims = ["c"]
        await node.prepare(kubelet, "c")
        if knows == "server-silent":
            node.server.refusal = (503, "a test")
        if knows == "kubelet-silent":
            node.where.pod_resources.unlink()
        # A look that has begun may still be answered by the socket that is unlinked.
        if not knows.startswith("kubelet"):
            node.given.claims = []
        if knows != "server":
            del node.server.claims["c"]
        before = len(looks)
        # The first may have begun before.
        await until(lambda: len(looks) >= before + 3)

        assert remembered(node) == ["c"]


@pytest.mark.parametrize("place", ["torn", "folder", "pipe"])
async def test_a_memory_that_cannot_be_read_is_told_with_a_way_out(place: str, short_path: Path) -> None:
    async with made(short_path) as node:
        if place == "torn":
            node.where.claims.write_text('{"claims": {"a')
        else:
            node.where.claims.mkdir() if place == "folder" else os.mkfifo(node.where.claims)

        with pytest.raises(errors.Failure, match=r"by force, and remove the file once their containers have ended\.$"):
            async with node.working():
                program = asyncio.all_tasks() - {asyncio.current_task()}
                await asyncio.wait(program, timeout=30, return_when=asyncio.FIRST_COMPLETED)


async def test_a_device_that_is_gone_is_told_after_a_restart_too(short_path: Path) -> None:
    async with made(short_path) as node:
        async with node.working(), node.kubelet() as kubelet:
            node.server.allocate("c", A)
            await node.prepare(kubelet, "c")
        node.host.unplug(ADDRESS)
        async with node.working():
            await until(lambda: A in node.server.devices)

            assert taints(node, A) == [("openfuyao.com/lost", "Lost")]
            assert node.server.devices[A]["attributes"] == {"resource": {"string": HPRE}}


async def test_what_a_device_plugin_gave_late_loses_its_taint(short_path: Path) -> None:
    async with made(short_path) as node, node.working(), node.kubelet() as kubelet:
        await until(lambda: node.server.devices)
        await asyncio.sleep(0.2)
        node.given.given = {HPRE: (ADDRESS,)}
        node.server.allocate("c", A)
        refused = await node.prepare(kubelet, "c")
        await until(lambda: taints(node, A))
        node.given.given = {}

        assert "device plugin" in refused.error
        async with asyncio.timeout(10):
            await until(lambda: taints(node, A) == [])
