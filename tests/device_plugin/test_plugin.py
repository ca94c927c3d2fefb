"""The plugin of a node: what it tells, what it answers, and what it refuses."""

import asyncio
import contextlib
import errno
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin import plugin
from device_plugin.host import health
from device_plugin.kubelet.service import Refusal
from runtime import errors, files
from tests.device_plugin import hosts, machines, settings

A, B, ZIP = "0000:79:00.0", "0000:b9:00.0", "0000:75:00.0"
VF = "0000:79:00.1"
HPRE = settings.kind("hpre").resource


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def look(node: plugin.Plugin) -> None:
    asyncio.run(node.look())


def reasons(node: plugin.Plugin) -> list[str]:
    (codes,) = ([reason.code for reason in each.reasons] for each in node.devices if each.function.address == A)
    return codes


def given(node: plugin.Plugin, *ids: str) -> list[str]:
    """The addresses of the devices whose nodes a container gets."""
    known = {str(node.where.link(settings.kind("hpre"), address)): address for address in (A, B)}
    return [known[device.host_path] for device in asyncio.run(node.allocate(HPRE, ids)).devices]


def refused(node: plugin.Plugin, *ids: str) -> str:
    with pytest.raises(Refusal) as caught:
        asyncio.run(node.allocate(HPRE, ids))
    return str(caught.value)


def test_a_resource_without_devices_has_an_empty_list(tmp_path: Path) -> None:
    assert settings.told(settings.looked(machines.virtual_machine(tmp_path)), "zip") == {}


def test_virtual_functions_take_the_place_of_their_physical_one_and_give_it_back(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)

    host.set_vfs(A, 2)
    look(node)
    assert settings.told(node) == {VF: True, "0000:79:00.2": True, B: True}

    host.set_vfs(A, 0)
    look(node)
    assert settings.told(node) == {A: True, B: True}


def test_everything_is_unhealthy_while_the_driver_is_changed(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)

    host.set_driver_changing("upgrade")
    look(node)
    assert settings.told(node) == {A: False, B: False}
    assert list(node.where.links.iterdir()) == []

    host.set_driver_changing(None)
    look(node)
    assert settings.told(node) == {A: True, B: True}
    assert sum(link.readlink().is_absolute() for link in node.where.links.iterdir()) == 6


def test_two_shares_of_a_device_are_one_node(tmp_path: Path) -> None:
    node = settings.looked(machines.bare_metal(tmp_path), settings.settings(settings.uacce(shares=4)))

    assert given(node, f"{A}::1", f"{A}::3") == [A]
    assert given(node, A, A) == [A]
    assert given(node, B, f"{A}::2") == [A, B]


@pytest.mark.parametrize("unknown", ["0000:01:00.0", "", "::1", "../../dev/sda", "0000:79:00.0x", ZIP])
def test_an_unknown_device_is_refused_by_name(unknown: str, tmp_path: Path) -> None:
    node = settings.looked(machines.bare_metal(tmp_path))

    sentence = refused(node, A, unknown)

    assert sentence == f"Device {unknown.partition('::')[0]} of {HPRE} is not there."


def test_a_physical_function_with_virtual_ones_is_refused_with_the_reason(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)

    host.set_vfs(A, 2)

    assert refused(node, A) == (
        f"Device {A} of {HPRE} is not offered: Its 2 virtual functions are offered in its place."
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda host: host.unplug(A), "is not there."),
        (lambda host: host.set_isolate(A, 1), "is unhealthy: The kernel has isolated it after hardware errors."),
        (lambda host: host.remove_node(A), "is unhealthy: /dev/hisi_hpre-2 is not there."),
        (lambda host: host.set_driver_changing("x"), "is unhealthy: The driver of the node is being changed."),
    ],
)
def test_what_happened_without_any_event_is_seen_when_a_device_is_given(
    change: Callable[[hosts.Host], None], sentence: str, tmp_path: Path
) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)
    change(host)

    assert refused(node, A) == f"Device {A} of {HPRE} {sentence}"
    assert not settings.told(node).get(A)


def test_a_device_that_came_without_any_event_can_be_given(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.unplug(A)
    node = settings.looked(host)

    host.replug(A)

    assert given(node, A) == [A]
    assert settings.told(node) == {A: True, B: True}


def test_a_renumbered_device_leads_to_its_new_node_before_the_answer_is_out(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)

    host.renumber()
    given(node, A)

    assert str((node.where.links / "hisi_hpre-30976").readlink()) == f"/dev/{host.states()[A].entry}"


def test_a_busy_device_is_no_reason_to_look_anew(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)
    before = node.devices

    host.set_available_instances(A, 0)

    assert given(node, A) == [A]
    assert node.devices is before


def test_a_device_that_fails_again_and_again_is_damped_and_comes_back(tmp_path: Path) -> None:
    host, clock = machines.bare_metal(tmp_path), Clock()
    node = settings.looked(host, clock=clock)
    for isolated in (1, 0, 1, 0, 1, 0):
        clock.now += 10
        host.set_isolate(A, isolated)
        look(node)

    assert reasons(node) == [health.DAMPED.code]
    assert refused(node, A).endswith(health.DAMPED.text)
    assert settings.told(node)[B]

    clock.now += health.CALM_S
    look(node)
    assert reasons(node) == []


def test_changes_of_the_driver_damp_nothing(tmp_path: Path) -> None:
    host, clock = machines.bare_metal(tmp_path), Clock()
    node = settings.looked(host, clock=clock)

    for _ in range(5):
        for change in (host.unload, host.load):
            clock.now += 1
            change()
            look(node)

    assert settings.told(node) == {A: True, B: True}


def test_faults_count_together_though_the_device_is_away_in_between(tmp_path: Path) -> None:
    host, clock = machines.bare_metal(tmp_path), Clock()
    node = settings.looked(host, clock=clock)
    changes: list[Callable[[], None]] = [lambda: host.set_isolate(A, 1), lambda: host.unplug(A), lambda: host.replug(A)]
    for _ in range(3):
        for change in changes:
            clock.now += 10
            change()
            look(node)

    assert reasons(node) == [health.DAMPED.code]

    host.unplug(A)
    look(node)
    clock.now += health.WINDOW_S
    look(node)
    host.replug(A)
    look(node)
    assert reasons(node) == []


def test_loads_are_those_of_one_resource(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_available_instances(A, 3)
    host.unbind(B)

    loads = settings.looked(host).loads(HPRE)

    assert {name: (load.numa_node, load.free_queues) for name, load in loads.items()} == {A: (0, 3), B: (1, 0)}


def test_what_changes_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)
    caplog.set_level(logging.INFO)
    caplog.clear()

    host.set_isolate(A, 1)
    look(node)
    look(node)
    host.unplug(B)
    look(node)
    look(node)

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "Device is unhealthy."),
        ("INFO", "Device is offered no more."),
    ]
    assert vars(caplog.records[0])["reasons"] == ["Isolated"]
    assert vars(caplog.records[1])["reason"] == "It is not on the PCI bus any more."


def test_renumbering_is_logged_for_every_device(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)
    caplog.set_level(logging.INFO)
    caplog.clear()

    host.renumber()
    look(node)

    assert [record.message for record in caplog.records] == ["Device was renumbered."] * 6


def test_files_that_somebody_removes_come_back_with_the_next_look(tmp_path: Path) -> None:
    node = settings.looked(machines.bare_metal(tmp_path))
    before = sorted(path.relative_to(node.where.run) for path in node.where.run.rglob("*"))
    for folder in (node.where.openssl, node.where.shown.parent, node.where.links):
        shutil.rmtree(folder)

    look(node)

    assert sorted(path.relative_to(node.where.run) for path in node.where.run.rglob("*")) == before


def test_a_report_that_cannot_be_written_is_told_once_and_no_older_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)
    replaced = files.replaced

    def full(path: Path) -> contextlib.AbstractContextManager[Path]:
        if path == node.where.report:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replaced(path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "replaced", full)
        for isolated in (1, 0):
            host.set_isolate(A, isolated)
            look(node)
            assert not node.where.report.exists()
    assert settings.told(node) == {A: True, B: True}
    assert [record.getMessage() for record in caplog.records if "written" in record.getMessage()] == [
        f"'{node.where.report}' cannot be written (No space left on device), so `list` looks at the node itself."
    ]
    look(node)
    assert node.where.report.exists()


def test_a_link_that_cannot_be_made_makes_one_device_unhealthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = machines.bare_metal(tmp_path)
    node = settings.looked(host)
    link = node.where.links / "hisi_hpre-30976"
    link.unlink()
    replaced = files.replaced

    def full(path: Path) -> contextlib.AbstractContextManager[Path]:
        if path == link:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replaced(path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "replaced", full)
        for _ in range(2):
            look(node)
    assert settings.told(node) == {A: False, B: True}
    assert [vars(record)["reasons"] for record in caplog.records if "unhealthy" in record.getMessage()] == [
        ["HostPath"]
    ]
    look(node)
    assert settings.told(node) == {A: True, B: True}


def test_a_wrong_link_that_cannot_be_removed_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = settings.looked(machines.bare_metal(tmp_path))
    stray = node.where.links / "stray"
    stray.symlink_to("/dev/null")
    unlink = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        if path == stray:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    for _ in range(2):
        look(node)

    assert settings.told(node) == {A: True, B: True}
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"'{stray}' cannot be changed: Read-only file system."
    ]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.run.rmdir()
    host.run.write_text("no folder")

    with pytest.raises(errors.Failure, match=r"^'.*run/kae/dev' cannot be changed: Not a directory\.$"):
        settings.looked(host)
