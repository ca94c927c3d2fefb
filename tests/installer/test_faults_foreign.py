"""Faults on hosts on which KAE has installed no driver, with and without a driver of others."""

import pytest

from installer.host import record
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew
from tests.installer.machines import Machine

pytestmark = pytest.mark.long

BACK = "The host is back in its previous state."
BY_HAND = 'SUBSYSTEM=="uacce", GROUP="kaegroup", MODE="0660"\n'
FOREIGN = "options hisi_hpre uacce_mode=2 pf_q_num=512 vfs_num=2\n"


@pytest.fixture
def theirs(machine: Machine) -> Machine:
    """A host on which others have installed 2.0.0, with options and a udev rule of theirs."""
    machine.add_driver("2.0.0")
    machine.set_options(uacce_mode=2, pf_q_num=512)
    machine.host.write("/etc/modprobe.d/hisi_hpre.conf", FOREIGN)
    machine.host.write(homes.KAE.rule, BY_HAND)
    machine.load()
    return machine


def contents(machine: Machine) -> dict[str, str]:
    """The host's files without those of the store, by digest, and the modes of its device nodes."""
    files = machine.files("etc", "opt", "usr")
    return {path: digest for path, (_, digest) in files.items()} | {
        name: oct(mode) for name, mode in machine.nodes().items()
    }


def test_a_driver_of_others_comes_back_with_all_that_belongs_to_it(theirs: Machine, crew: Crew) -> None:
    before, vfs = contents(theirs), theirs.vfs(incidents.HPRE)
    assert (len(vfs), set(theirs.nodes().values())) == (2, {0o660})
    theirs.refuse()

    shown = crew.job("2.0.1", install_policy="Always").settle()

    assert (shown.state, shown.reason.endswith(BACK)) == ("Failed", True)
    assert (settings.versions(theirs), contents(theirs)) == ({"2.0.0"}, before)
    assert theirs.vfs(incidents.HPRE) == vfs
    assert theirs.parameters("hisi_hpre")["pf_q_num"] == 512
    assert record.read(theirs.host).installed is None


def test_nodes_that_others_opened_by_hand_are_open_again(machine: Machine, crew: Crew) -> None:
    machine.add_driver("2.0.0")
    machine.set_options(uacce_mode=2)
    machine.load()
    for name in machine.nodes():
        (machine.root / "dev" / name).chmod(0o666)
    machine.refuse()

    shown = crew.job("2.0.1", install_policy="Always").settle()

    assert (shown.state, set(machine.nodes().values())) == ("Failed", {0o666})
    assert not machine.host.path(homes.KAE.rule).exists()


def test_options_of_others_in_other_files_are_never_touched(machine: Machine, crew: Crew) -> None:
    machine.host.write("/etc/modprobe.d/site.conf", "options hisi_zip perf_mode=1\nblacklist nouveau\n")
    machine.host.write("/etc/udev/rules.d/10-site.rules", "# ours\n")

    crew.job("2.0.1", state="Absent").settle()

    assert (machine.root / "etc/modprobe.d/site.conf").read_text().endswith("blacklist nouveau\n")
    assert (machine.root / "etc/udev/rules.d/10-site.rules").read_text() == "# ours\n"


def test_a_first_install_that_fails_leaves_no_traces(machine: Machine, crew: Crew) -> None:
    before = set(machine.files("etc", "lib", "opt", "usr"))
    machine.refuse("hisi_hpre")

    shown = crew.job("2.0.1").settle()

    assert (shown.state, machine.loaded()) == ("Failed", {})
    assert set(machine.files("etc", "lib", "opt", "usr")) == before
    assert record.read(machine.host).installed is None
    assert not machine.host.path(homes.KAE.changing).exists()


def test_a_copy_of_a_module_that_comes_in_the_last_moment_is_named(machine: Machine, crew: Crew) -> None:
    job = crew.job("2.0.1")
    job.at("place-modules", lambda: machine.add_driver("2.0.1", "updates/dkms"))

    shown = job.settle()

    theirs, ours = (f"/lib/modules/{machine.kernel}/updates/{name}" for name in ("dkms", "kae"))
    assert shown.state == "Failed"
    assert f"modprobe takes uacce from '{theirs}/uacce.ko', not from '{ours}'" in shown.reason
    assert shown.reason.endswith(BACK)
    assert machine.loaded() == {}


def test_the_kernels_own_modules_out_of_an_initramfs_are_exchanged(machine: Machine, crew: Crew) -> None:
    machine.capture_initramfs()
    machine.reboot()
    assert (settings.versions(machine), machine.entries()) == ({None}, {})

    shown = crew.job("2.0.1").settle()

    assert (shown.state, incidents.works(machine)) == ("Ready", True)
