"""The kernel does not finish what it began: a module that goes or comes for ever, and users that are hard to see."""

import errno
import os
import threading
from pathlib import Path

import pytest

from installer import loop
from installer.drain import device_holders, device_users, leases
from installer.host import chroot, kmod, pci, record
from runtime import errors, process
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew, Job, Users
from tests.installer.machines import Machine
from tests.installer.settings import Boot

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]

NODE = "hisi_hpre-0"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a module that udev may be loading."""
    monkeypatch.setattr(loop, "_SETTLED_S", 0)


@pytest.fixture
def hanging(machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> Job:
    """An installer whose rmmod hangs, as a process opened a device after the last look at them."""
    job = crew.job()
    with monkeypatch.context() as patched:
        patched.setattr(device_users.DeviceUsers, "openers", lambda _: ())
        job.at("unload-modules", lambda: machine.hold(4711, NODE), event="begun")
        job.settle()
    return job


def test_an_rmmod_that_hangs_leaves_all_as_it_is_and_says_so(machine: Machine, hanging: Job) -> None:
    assert (hanging.shown.state, hanging.shown.ready) == ("Stuck", False)
    assert hanging.shown.reason == "'rmmod hisi_hpre' hangs in the kernel, and not even SIGKILL ends it."
    assert machine.state_of("hisi_hpre") == "going"
    # The device plugin offers nothing, and after a power cycle the record has the way back.
    assert machine.host.path(homes.KAE.changing).exists()
    assert record.read(machine.host).change is not None


def test_a_module_that_does_not_go_is_seen_without_a_program(machine: Machine, crew: Crew, hanging: Job) -> None:
    machine.calls()

    shown = crew.job().settle()

    assert hanging.shown is not shown
    assert (shown.state, shown.reason) == (
        "Stuck",
        "The kernel does not finish unloading module hisi_hpre, as rmmod hangs in it. It waits for process 4711"
        " (openssl): end that, or reboot. After a reboot call 'python -m installer retry'.",
    )
    assert machine.calls() == []


def test_a_change_goes_on_when_the_user_has_let_go(machine: Machine, boot: Boot, hanging: Job) -> None:
    hanging.settle()
    machine.release(4711)
    boot.now_s += 120

    shown = hanging.settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


def test_a_modprobe_that_hangs_leaves_all_as_it_is_and_says_so(machine: Machine, crew: Crew) -> None:
    machine.let_start(hisi_hpre="hang")
    job = crew.job()

    first = job.settle().reason
    shown = job.settle()

    assert first == "'modprobe hisi_hpre' hangs in the kernel, and not even SIGKILL ends it."
    assert (shown.state, shown.reason) == (
        "Stuck",
        "The kernel does not finish loading module hisi_hpre: its start hangs, or a kernel oops ended it (see dmesg on"
        " the host). Only a reboot helps; then call 'python -m installer retry'.",
    )
    assert machine.host.path(homes.KAE.changing).exists()


def test_after_an_oops_at_load_the_next_boot_brings_the_driver_before(machine: Machine, crew: Crew) -> None:
    machine.let_start(hisi_hpre="oops")
    job = crew.job()

    failed = job.settle().reason
    stuck = job.settle().state
    machine.mend()
    machine.reboot()
    crew.job().settle()

    half = "it stays half loaded, as after a kernel oops in its start (see dmesg on the host); only a reboot removes it"
    assert failed == (
        f"Module hisi_hpre cannot be loaded: {half}. The previous driver cannot be restored: Module hisi_hpre cannot be"
        f" unloaded: {half}."
    )
    assert stuck == "Stuck"
    assert incidents.works(machine)


def test_a_mapped_device_is_seen_where_uacce_is_built_into_the_kernel(machine: Machine) -> None:
    entries = pci.devices(machine.host, settings.config()).values()
    machine.host.path("/sys/module/uacce/refcnt").unlink()
    assert list(device_holders.find_processes(machine.host, entries)) == []

    machine.map(4711, NODE)

    machine.host.path("/sys/module/uacce/refcnt").unlink(missing_ok=True)
    assert [user.text for user in device_holders.find_processes(machine.host, entries)] == ["process 4711 (openssl)"]


def test_closed_nodes_have_their_modes_again_when_the_driver_stays(machine: Machine, users: Users, crew: Crew) -> None:
    (machine.root / "dev" / NODE).chmod(0o640)
    before, during = machine.nodes(), list[dict[str, int]]()
    job = crew.job()
    job.at("begin-change", lambda: during.append(machine.nodes()))
    job.at("begin-change", lambda: machine.hold(4711, "hisi_zip-5"))

    shown = job.settle()

    assert during == [dict.fromkeys(before, 0)]
    assert (shown.state, machine.nodes()) == ("Blocked", before)


def test_closed_nodes_are_open_again_when_the_policy_goes_back(machine: Machine, crew: Crew) -> None:
    crew.job().end_after("begin-change")
    closed = set(machine.nodes().values())

    shown = crew.job("2.0.1").settle()

    assert (closed, shown.state, incidents.works(machine)) == ({0}, "Ready", True)


def test_a_host_says_that_it_is_queued_before_the_api_server_answers(
    machine: Machine, users: Users, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.come(incidents.POD)
    job, states = crew.job(), list[str]()

    def refuse(_: leases.Claim) -> bool:
        states.append(job.shown.state)
        return False

    monkeypatch.setattr(leases.Claim, "take", refuse)

    job.settle()

    assert states == ["Queued"]


def test_a_device_that_gives_no_queue_is_a_fault_of_the_new_driver(machine: Machine, crew: Crew) -> None:
    job = crew.job()
    job.at("load-modules", lambda: machine.refuse_queues(hisi_hpre=errno.EIO))

    shown = job.settle()

    assert shown.reason == (
        "The verification of the driver failed: Device 0000:79:00.0 gives no queue: Input/output error; Device"
        " 0000:b9:00.0 gives no queue: Input/output error. The host is back in its previous state."
    )
    assert (shown.state, incidents.works(machine)) == ("Failed", True)


def test_an_attribute_whose_write_hangs_is_a_failure_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "sriov_numvfs")  # To open it waits for a reader, who never comes.
    monkeypatch.setattr(chroot, "_WRITE_S", 0.2)
    said: list[str] = []

    def write() -> None:
        with pytest.raises(process.TooSlow) as caught:
            chroot.Host(tmp_path, homes.KAE).write_attribute("/sriov_numvfs", "63")
        said.append(str(caught.value))

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    writing.join(20)

    assert [text.partition("'echo 63 > /sriov_numvfs'")[1] for text in said] == ["'echo 63 > /sriov_numvfs'"]


def test_an_attribute_is_written_and_a_refusal_has_the_kernels_reason(tmp_path: Path) -> None:
    host = chroot.Host(tmp_path, homes.KAE)
    (tmp_path / "sriov_numvfs").write_text("0\n")
    (tmp_path / "full").symlink_to("/dev/full")

    host.write_attribute("/sriov_numvfs", "63")

    assert (tmp_path / "sriov_numvfs").read_text() == "63"
    with pytest.raises(errors.Failure, match=r"^The kernel refuses '1' in '/full': No space left on device\.$"):
        host.write_attribute("/full", "1")
    with pytest.raises(errors.Failure, match=r"^The kernel refuses '1' in '/none': No such file or directory\.$"):
        host.write_attribute("/none", "1")


def test_after_a_module_that_hangs_a_blocked_driver_loads_no_other(
    machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = []

    def hang(_: chroot.Host, name: str) -> None:
        loads.append(name)
        raise process.Unkillable(f"modprobe {name} hangs.")

    machine.host.write(homes.KAE.blocked, "blacklist hisi_qm\n")
    monkeypatch.setattr(kmod, "load", hang)

    crew.job("2.0.1").loop.cycle()

    assert len(loads) == 1
