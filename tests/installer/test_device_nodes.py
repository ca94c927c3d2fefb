"""The device nodes: their mode and group, at once, for later ones, after a boot, and as they were after a rollback."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from device_plugin.host import paths as published
from installer import paths
from installer.host import host_state
from installer.report import report
from runtime import errors, shapes
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew
from tests.installer.machines import Machine

pytestmark = pytest.mark.usefixtures("installed")

GROUP = os.getgid() if os.geteuid() else 994
"""Only root gives a file to another group."""

NODES = shapes.DeviceNodes(mode="0660", group=GROUP)


def permissions(machine: Machine) -> tuple[set[int], set[int]]:
    return set(machine.nodes().values()), machine.groups()


def test_a_group_that_the_policy_names_gets_the_nodes_at_once_and_disturbs_nobody(machine: Machine, crew: Crew) -> None:
    machine.calls()

    shown = crew.job("2.0.1", device_nodes=NODES).settle()

    assert (shown.state, permissions(machine)) == ("Ready", ({0o660}, {GROUP}))
    assert [call for call in machine.calls() if not call.startswith("modinfo")] == [
        "udevadm control --reload",
        "udevadm trigger --subsystem-match=uacce",
    ]


def test_the_mode_is_given_where_udev_does_not_answer(machine: Machine, crew: Crew) -> None:
    (udevadm,) = machine.root.glob("**/udevadm")
    udevadm.unlink()

    shown = crew.job("2.0.1", device_nodes=NODES).settle()

    assert (shown.state, permissions(machine)) == ("Ready", ({0o660}, {GROUP}))


@pytest.mark.parametrize("address", ["0000:79:00.0", "0001:b9:1f.7"])
def test_udev_makes_a_link_of_the_name_that_containers_have(machine: Machine, address: str) -> None:
    (program,) = re.findall(r'PROGRAM="(.*?)", SYMLINK\+="%c"', host_state.rule(machine.host, NODES))
    # As udev does (udev(7)); it takes a quoted word as one argument.
    command = program.replace("$id", address).replace("%k", "hisi_hpre-12").replace("$$", "$").replace("%%", "%")

    printed = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True)

    assert printed.stdout.strip() == published.published_name("hisi_hpre", address)


def test_the_rule_that_the_documentation_has_for_foreign_drivers_is_the_installers(machine: Machine) -> None:
    page = (Path(__file__).parents[2] / "docs/using-kae.md").read_text("utf-8")

    assert f"```text\n{host_state.rule(machine.host, shapes.DeviceNodes())}```\n" in page


@pytest.mark.parametrize(("text", "goes"), [('SUBSYSTEM=="uacce", MODE="0666"\n', True), ("# Another's.\n", False)])
def test_a_rule_of_an_earlier_release_goes_and_no_other(text: str, goes: bool, image: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "bare")
    machine.host.write(homes.KAE.rule, text)

    shown = settings.installer(machine, image, state="Absent").settle()

    assert shown.state == "Ready"
    assert machine.host.path(homes.KAE.rule).exists() is not goes


def test_udev_makes_no_link_where_cri_o_would_refuse_it(machine: Machine) -> None:
    machine.host.path(paths.CRIO).mkdir()

    assert "SYMLINK" not in host_state.rule(machine.host, NODES)


def test_later_nodes_have_the_group_too(machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", device_nodes=NODES).settle()

    machine.reboot()

    assert permissions(machine) == ({0o660}, {GROUP})
    assert (
        machine.host.path(homes.KAE.rule).read_text().splitlines()[0]
        == f'SUBSYSTEM=="uacce", GROUP="{GROUP}", MODE="0660"'
    )


def test_a_rollback_gives_the_nodes_back_to_whom_they_belonged(machine: Machine, crew: Crew) -> None:
    before = permissions(machine)
    job = crew.job(device_nodes=NODES)
    job.at("permit-device-nodes", lambda: settings.break_parameter(machine))

    shown = job.settle()

    assert (shown.state, permissions(machine)) == ("Failed", before)
    assert incidents.works(machine)


@pytest.mark.parametrize("smmu", [True, False])
@pytest.mark.parametrize("mode", ["0660", "0666"])
def test_status_warns_of_nodes_open_to_everybody_where_no_iommu_confines_the_devices(
    tmp_path: Path, smmu: bool, mode: str
) -> None:
    machine = Machine(tmp_path / "host", smmu=smmu)
    machine.add_image(tmp_path / "image", "2.0.1")
    nodes = shapes.DeviceNodes(mode="0660", group=GROUP) if mode == "0660" else shapes.DeviceNodes()
    settings.installed(machine, tmp_path / "image", device_nodes=nodes)

    parts = settings.wired(machine, tmp_path / "image", device_nodes=nodes)
    said = report.as_status(parts.report())
    parts.close()

    assert ("The SMMU is off, and every process may open" in said) == (mode == "0666" and not smmu)


def test_nodes_are_closed_when_no_pod_can_be_given_one(machine: Machine, crew: Crew) -> None:
    # A runtime copies the mode of the host's node into a container, which would keep a mode of 0.
    seen: list[tuple[str, set[int]]] = []
    job = crew.job()
    for step in ("announce-change", "drain-devices", "begin-change"):
        job.at(step, lambda step=step: seen.append((step, set(machine.nodes().values()))))  # type: ignore[misc]

    shown = job.settle()

    assert seen == [("announce-change", {0o666}), ("drain-devices", {0o666}), ("begin-change", {0})]
    assert (shown.state, permissions(machine)[0]) == ("Ready", {0o666})


def test_a_link_in_place_of_a_node_is_not_followed(machine: Machine, tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.touch(mode=0o640)
    (machine.root / "dev/hisi_hpre-9").symlink_to(others)

    with pytest.raises(errors.Failure, match="'/dev/hisi_hpre-9' on the host cannot be changed: Too many levels"):
        machine.host.permit("/dev/hisi_hpre-9", 0)

    assert others.stat().st_mode & 0o777 == 0o640
