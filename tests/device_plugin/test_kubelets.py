"""The stand-in kubelet keeps to the kubelet's rules, shown against the smallest plugin there can be."""

import asyncio
from pathlib import Path

import pytest

from device_plugin.api import deviceplugin_v1beta1_pb2 as pb
from device_plugin.api import pluginregistration_v1_pb2 as registration_pb
from tests.device_plugin import containers, kubelets, plugins, registrations

HPRE, SEC = "openfuyao.com/kae.hpre", "openfuyao.com/kae.sec"


def well(name: str) -> pb.Device:
    return pb.Device(ID=name, health="Healthy")


def ill(name: str) -> pb.Device:
    return pb.Device(ID=name, health="Unhealthy")


def whats(kubelet: kubelets.Kubelet) -> list[str]:
    return [event.what for event in kubelet.events]


async def test_a_plugin_in_a_folder_below_is_asked_in_the_kubelets_order(short_path: Path) -> None:
    plugin, registration = plugins.Plugin(well("a"), ill("b")), plugins.Registration(HPRE)

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, registration, kubelet.registry / "kae/hpre-1.sock"),
    ):
        await kubelet.until(lambda: {"list", "notified"} <= set(whats(kubelet)))

        assert [what for what in whats(kubelet) if what != "list"] == ["found", "info", "options", "notified"]
        assert whats(kubelet).index("list") > whats(kubelet).index("options")
        assert [status.plugin_registered for status in registration.told] == [True]
        assert (kubelet.capacity(HPRE), kubelet.allocatable(HPRE)) == (2, 1)


async def test_each_list_replaces_the_one_before(short_path: Path) -> None:
    plugin = plugins.Plugin(well("a"), well("b"))

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 2)
        plugin.lists.put_nowait([ill("c")])
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 0)

        assert kubelet.capacity(HPRE) == 1


async def test_a_stream_that_ends_is_never_dialled_again_and_the_resource_goes_after_the_grace_time(
    short_path: Path,
) -> None:
    plugin = plugins.Plugin(well("a"))

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)
        plugin.lists.put_nowait(None)
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 0)

        assert kubelet.capacity(HPRE) == 1
        await kubelet.until(lambda: kubelet.capacity(HPRE) is None)
        assert plugin.streams == 1


async def test_a_cut_connection_ends_the_stream_at_the_plugin(short_path: Path) -> None:
    plugin = plugins.Plugin(well("a"))

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)
        await kubelet.cut(HPRE)

        assert (kubelet.capacity(HPRE), kubelet.allocatable(HPRE)) == (1, 0)


async def test_a_socket_that_disappears_takes_its_registration_along(short_path: Path) -> None:
    plugin = plugins.Plugin(well("a"))

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "k/a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)
        kubelet.wipe()
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 0)

        assert "vanished" in whats(kubelet)


async def test_a_new_socket_of_an_old_name_is_a_new_plugin(short_path: Path) -> None:
    async with kubelets.Kubelet(short_path) as kubelet:
        for devices in ((well("a"),), (well("a"), well("b"))):
            async with plugins.serving(plugins.Plugin(*devices), plugins.Registration(HPRE), kubelet.registry / "a"):
                await kubelet.until(lambda devices=devices: kubelet.allocatable(HPRE) == len(devices))  # type: ignore[misc]  # mypy cannot infer a default.

        await kubelet.until(lambda: whats(kubelet).count("vanished") == 2)


@pytest.mark.parametrize(("keyed_by_socket", "left"), [(False, 0), (True, 1)])
async def test_the_end_of_the_older_of_two_plugins_ends_the_newer_too_unless_keyed_by_socket(
    keyed_by_socket: bool, left: int, short_path: Path
) -> None:
    options = registrations.Options(keyed_by_socket=keyed_by_socket)
    older, newer = plugins.Plugin(well("a")), plugins.Plugin(well("a"))

    async with (
        kubelets.Kubelet(short_path, options) as kubelet,
        plugins.serving(older, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: older.streams == 1)
        async with plugins.serving(newer, plugins.Registration(HPRE), kubelet.registry / "b"):
            await kubelet.until(lambda: whats(kubelet).count("list") == 2)
            older.lists.put_nowait(None)
            await kubelet.until(lambda: "disconnected" in whats(kubelet))

            assert kubelet.allocatable(HPRE) == left


async def test_a_restarted_kubelet_dials_the_sockets_that_are_there_and_keeps_allocations(short_path: Path) -> None:
    plugin = plugins.Plugin(well("a"))

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)
        await kubelet.allocate("pod", HPRE, ["a"])
        plugin.first = (well("a"), well("b"))
        await kubelet.restart()
        at_once = kubelet.capacity(HPRE)
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 2)

        assert at_once == 0
        assert kubelet.used(HPRE) == {"a"}
        assert dict((await kubelet.allocate("pod", HPRE, ["a"])).envs) == {"KAE": "1"}
        assert plugin.allocated == [["a"]]


async def test_a_plugin_that_does_not_answer_at_first_is_asked_again(short_path: Path) -> None:
    registration = plugins.Registration(HPRE)
    registration.answers_after = 2

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugins.Plugin(well("a")), registration, kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)

        assert whats(kubelet).count("failed") == 2


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("name", "kae.hpre", "invalid"),
        ("name", "node.kubernetes.io/hpre", "invalid"),
        ("type", "CSIPlugin", "no handler"),
        ("supported_versions", ["v1"], "none of the versions"),
    ],
)
async def test_a_plugin_that_describes_itself_wrongly_is_told_so(
    field: str, value: object, error: str, short_path: Path
) -> None:
    registration = plugins.Registration(HPRE)
    registration.info.ClearField(field)
    registration.info.MergeFrom(registration_pb.PluginInfo(**{field: value}))  # type: ignore[arg-type]  # By name.

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugins.Plugin(), registration, kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: bool(registration.told))

        assert not registration.told[0].plugin_registered
        assert error in registration.told[0].error
        assert kubelet.resources() == {}


async def test_a_list_above_4_mib_costs_the_resource(short_path: Path) -> None:
    plugin = plugins.Plugin(well("a"))

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)
        plugin.lists.put_nowait([well("x" * 4 * 1024 * 1024)])
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 0)

        (ended,) = (event for event in kubelet.events if event.what == "ended")
        assert ended.detail.startswith("RESOURCE_EXHAUSTED")


async def test_a_slow_kubelet_still_takes_in_every_list(short_path: Path) -> None:
    plugin = plugins.Plugin(well("a"))
    kubelet = kubelets.Kubelet(short_path)
    kubelet.read_slowly(0.02)

    async with kubelet, plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"):
        await kubelet.until(lambda: plugin.streams == 1)
        for number in range(5):
            plugin.lists.put_nowait([well(f"a{number}")])
        await kubelet.until(lambda: kubelet.healthy(HPRE) == {"a4"})

        assert kubelet.resources()[HPRE].lists == 6


async def test_a_device_that_is_not_healthy_or_is_taken_is_never_asked_for(short_path: Path) -> None:
    plugin = plugins.Plugin(well("a"), ill("b"))

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)
        await kubelet.allocate("first", HPRE, ["a"])

        for name in ("a", "b"):
            with pytest.raises(containers.RefusedError):
                await kubelet.allocate("second", HPRE, [name])
        kubelet.release("first")
        await kubelet.allocate("second", HPRE, ["a"])
        assert plugin.allocated == [["a"], ["a"]]


async def test_an_allocation_is_refused_when_its_connection_is_cut_meanwhile(short_path: Path) -> None:
    plugin = plugins.Plugin(well("a"))
    plugin.released.clear()

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)
        allocation = asyncio.create_task(kubelet.allocate("pod", HPRE, ["a"]))
        await kubelet.until(lambda: plugin.allocated == [["a"]])
        await kubelet.cut(HPRE)

        with pytest.raises(containers.RefusedError, match="closed"):
            await allocation
        assert kubelet.used(HPRE) == frozenset()


async def test_the_plugins_wish_is_followed_as_far_as_it_can_be(short_path: Path) -> None:
    plugin = plugins.Plugin(*map(well, "abcd"))
    plugin.options.get_preferred_allocation_available = True
    plugin.wish = ["d", "nonsense", "d"]

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(plugin, plugins.Registration(HPRE), kubelet.registry / "a"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 4)
        await kubelet.admit("pod", {HPRE: 2})

        assert plugin.allocated == [["d", "a"]]
        with pytest.raises(containers.RefusedError, match="3 of"):
            await kubelet.admit("other", {HPRE: 3})


async def test_of_two_answers_for_one_path_the_first_wins_and_the_difference_is_recorded(short_path: Path) -> None:
    hpre, sec = plugins.Plugin(well("a")), plugins.Plugin(well("b"))
    shared = pb.Mount(container_path="/sys/class/uacce", host_path="/run/kae/uacce/class", read_only=True)
    hpre.answer = pb.ContainerAllocateResponse(envs={"A": "1", "B": "1"}, mounts=[shared])
    sec.answer = pb.ContainerAllocateResponse(envs={"A": "2", "C": "1"}, mounts=[shared])

    async with (
        kubelets.Kubelet(short_path) as kubelet,
        plugins.serving(hpre, plugins.Registration(HPRE), kubelet.registry / "a"),
        plugins.serving(sec, plugins.Registration(SEC), kubelet.registry / "b"),
    ):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) + kubelet.allocatable(SEC) == 2)
        given = await kubelet.admit("pod", {HPRE: 1, SEC: 1})

    assert given.envs == {"A": "1", "B": "1", "C": "1"}
    assert given.mounts == {"/sys/class/uacce": shared}
    assert given.conflicts == ("envs: A",)
    assert await kubelet.start_container("pod") == given


async def test_waiting_in_vain_says_what_happened_instead(short_path: Path) -> None:
    async with kubelets.Kubelet(short_path) as kubelet:
        with pytest.raises(TimeoutError, match="not within"):
            await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1, within_s=0.05)
