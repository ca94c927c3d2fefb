"""Kinds that a policy does not enable: their modules are not asked for, and they are in nobody's way."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compiler import kae
from installer.host import record
from runtime import shapes
from tests.installer import homes, incidents, modulefiles, settings, sourcetrees
from tests.installer.incidents import Crew
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

pytestmark = pytest.mark.long

BASE = kae.BASE_MODULES
HPRE, SEC, ZIP = (settings.kind(name).module for name in ("hpre", "sec", "zip"))
BACK = "The host is back in its previous state."


def only(*kinds: str, **changes: Any) -> dict[str, Any]:
    """The config of a policy that enables these kinds."""
    modules = [settings.kind(name).module for name in kinds]
    parameters = {module: {"uacce_mode": 2, "pf_q_num": 256} for module in modules}
    return {"modules": (*BASE, *modules), "module_parameters": parameters, **changes}


def leave(image: Path, *modules: str) -> None:
    """Leave an image no modules but the common ones and these."""
    for path in image.glob("opt/lib/modules/*/*.ko"):
        if path.stem not in (*BASE, *modules):
            path.unlink()


def options_files(machine: Machine) -> list[str]:
    """The modules that have an options file."""
    return sorted(path.stem for path in (machine.root / "etc/modprobe.d").glob("hisi_*.conf"))


def placed(machine: Machine) -> list[str]:
    """The modules that the installer has placed."""
    return sorted(path.stem for path in machine.host.path(homes.KAE.modules(machine.kernel)).iterdir())


def served(machine: Machine) -> set[str]:
    """The kinds of driver behind the entries of devices."""
    return {name.partition("-")[0] for name in machine.entries()}


def test_an_image_needs_no_modules_of_kinds_that_are_off(machine: Machine, image: Path, crew: Crew) -> None:
    leave(image, HPRE)

    shown = crew.job("2.0.1", **only("hpre")).settle()

    assert (shown.state, set(machine.loaded())) == ("Ready", {*BASE, HPRE})
    assert (served(machine), options_files(machine)) == ({HPRE}, [HPRE])


def test_an_image_without_the_module_of_an_enabled_kind_is_refused(machine: Machine, image: Path, crew: Crew) -> None:
    leave(image, HPRE)

    shown = crew.job("2.0.1", **only("hpre", "zip")).settle()

    assert (shown.state, shown.reason) == ("Failed", f"The image lacks {ZIP} for kernel {machine.kernel}.")
    assert machine.loaded() == {}


def test_a_source_that_has_no_other_kinds_is_compiled(machine: Machine, image: Path, crew: Crew) -> None:
    shutil.rmtree(image / "opt/lib")
    (image / "opt/src/kae/Kbuild").write_text("obj-m := uacce.o hisi_qm.o hisi_hpre.o\n")
    sourcetrees.write_kernel_devel(machine.root / f"lib/modules/{machine.kernel}/build", machine.kernel)

    shown = crew.job("2.0.1", **only("hpre", source=settings.BUILD)).settle()

    assert (shown.reason, set(machine.loaded())) == ("The driver 2.0.1 is loaded and verified.", {*BASE, HPRE})


def test_a_kind_that_the_image_has_never_heard_of_breaks_nothing(machine: Machine, crew: Crew) -> None:
    fourth = shapes.Kind(name="rde", vendor="19e5", devices=("a25a",), virtual=("a25b",), module="hisi_rde")
    kinds = (*settings.config().kinds, fourth)

    shown = crew.job("2.0.1", kinds=kinds).settle()

    assert (shown.state, incidents.works(machine)) == ("Ready", True)


def test_the_kernels_own_module_of_another_kind_is_unloaded_first(machine: Machine, crew: Crew) -> None:
    machine.load("uacce", "hisi_qm", ZIP)

    shown = crew.job("2.0.1", **only("hpre")).settle()

    assert (shown.state, set(machine.loaded()), settings.versions(machine)) == ("Ready", {*BASE, HPRE}, {"2.0.1"})


@pytest.mark.usefixtures("installed")
def test_holders_of_another_kind_whose_module_goes_are_waited_for(
    machine: Machine, server: ApiServer, crew: Crew
) -> None:
    entry = next(name for name in machine.entries() if name.startswith(ZIP))
    machine.hold(4711, entry)

    shown = crew.job(**only("hpre")).settle()

    assert (shown.state, "process 4711 (openssl)" in shown.reason) == ("Blocked", True)
    assert len(machine.loaded()) == 5


@pytest.mark.usefixtures("installed")
def test_a_kind_that_is_switched_off_stays_loaded_until_the_next_swap(machine: Machine, crew: Crew) -> None:
    before = machine.files("etc", "lib", "opt")
    shown = crew.job("2.0.1", **only("hpre")).settle()

    assert (shown.state, settings.changes_made(machine), len(machine.entries())) == ("Ready", [], 6)
    assert machine.files("etc", "lib", "opt") == before

    shown = crew.job(**only("hpre")).settle()

    assert (shown.state, set(machine.loaded()), served(machine)) == ("Ready", {*BASE, HPRE}, {HPRE})
    assert (placed(machine), options_files(machine)) == (sorted((*BASE, HPRE)), [HPRE])


@pytest.mark.parametrize("damage", ["version", "parameters/pf_q_num"])
@pytest.mark.usefixtures("installed")
def test_nothing_is_proved_of_a_kind_that_is_off(damage: str, machine: Machine, crew: Crew) -> None:
    (machine.root / "sys/module/hisi_zip" / damage).write_text("64\n")

    shown = crew.job("2.0.1", **only("hpre")).settle()

    assert (shown.state, settings.changes_made(machine)) == ("Ready", [])


@pytest.mark.usefixtures("installed")
def test_virtual_functions_of_a_kind_that_is_off_stay_with_its_module(machine: Machine, crew: Crew) -> None:
    zipped = "0000:75:00.0"
    machine.host.write_attribute(f"/sys/bus/pci/devices/{zipped}/sriov_numvfs", "3")
    shown = crew.job("2.0.1", **only("hpre", sriov={"hpre": 2})).settle()

    assert (shown.state, len(machine.vfs(zipped)), len(machine.vfs(incidents.HPRE))) == ("Ready", 3, 2)

    shown = crew.job(**only("hpre", sriov={"hpre": 2})).settle()

    assert (shown.state, len(machine.vfs(zipped)), len(machine.vfs(incidents.HPRE))) == ("Ready", 0, 2)


@pytest.mark.parametrize("in_tree", [False, True])
def test_a_kind_that_is_switched_on_brings_its_module(in_tree: bool, machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", **only("hpre")).settle()
    if not in_tree:
        for path in (machine.root / f"lib/modules/{machine.kernel}/kernel").rglob(f"{ZIP}.ko*"):
            path.unlink()
        machine.host.run("depmod", "-a", machine.kernel)

    shown = crew.job("2.0.1", **only("hpre", "zip")).settle()

    assert (shown.state, served(machine), settings.versions(machine)) == ("Ready", {HPRE, ZIP}, {"2.0.1"})
    assert placed(machine) == sorted((*BASE, HPRE, ZIP))


def test_a_kind_that_cannot_be_switched_on_brings_the_driver_before_it_back(machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", **only("hpre", "sec")).settle()
    machine.fail(f"modprobe {ZIP}", f"modprobe: ERROR: could not insert '{ZIP}': No such device")

    shown = crew.job("2.0.1", **only("hpre", "zip")).settle()

    assert (shown.state, shown.reason.endswith(BACK)) == ("Failed", True)
    assert (set(machine.loaded()), served(machine)) == ({*BASE, HPRE, SEC}, {HPRE, SEC})
    assert placed(machine) == sorted((*BASE, HPRE, SEC))


@pytest.mark.usefixtures("installed")
def test_a_driver_of_an_earlier_release_counts_as_one_with_all_modules(machine: Machine, crew: Crew) -> None:
    folder = machine.root / "var/lib/kae/drivers"
    for path in (*folder.glob("*/driver.json"), machine.host.path(homes.KAE.record)):
        path.write_text(path.read_text().replace('"wanted"', '"unknown"'))
    (driver,) = folder.glob("*/driver.json")
    assert msgspec.json.decode(driver.read_bytes(), type=record.Driver).wanted == ()
    machine.unload()
    machine.host.path(f"{homes.KAE.modules(machine.kernel)}/{ZIP}.ko").unlink()

    job = crew.job("2.0.1")
    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Ready", True)
    assert "copy-modules" not in job.shown.taken
    assert set(machine.loaded()) == set(modulefiles.DRIVER)
