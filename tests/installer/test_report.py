"""`status` and `plan` on eight hosts, as people see them at night; kept in tests/installer/reports/."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer import change_steps
from installer.decide import decision, desired, verification
from installer.host import host_state, kmod, pci, record
from installer.report import report
from runtime import driver_config
from tests import project
from tests.installer import podresources, settings
from tests.installer.machines import Machine

HERE = Path(__file__).parent / "reports"
A, B = "0000:79:00.0", "0000:b9:00.0"
SINCE = "2026-01-02T03:04:05Z"
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

Situation = Callable[[Path], Iterator[report.Report]]


def made(folder: Path) -> tuple[Machine, Path]:
    """A host, and an image with a driver."""
    machine = Machine(folder / "host")
    return machine, machine.image("2.0.1")


def installed(folder: Path) -> tuple[Machine, Path]:
    """A host with our driver 2.0.1, and the image that brought it."""
    machine, image = made(folder)
    settings.installed(machine, image)
    record.update(machine.host, since=SINCE)
    return machine, image


def reported(machine: Machine, image: Path, **changes: Any) -> report.Report:
    """Return the report of an installer with this config."""
    return settings.wired(machine, image, **changes).report()


def new_host(folder: Path) -> Iterator[report.Report]:
    """Nothing was ever installed; the image holds the modules."""
    yield reported(*made(folder))


def already_right(folder: Path) -> Iterator[report.Report]:
    """Nothing is to be done."""
    yield reported(*installed(folder))


def upgrade(folder: Path) -> Iterator[report.Report]:
    """A new version, while a pod and a process hold devices."""
    machine, _ = installed(folder)
    machine.hold(4711, "hisi_zip-4", comm="gzip")
    drain = driver_config.Drain(timeout_seconds=300)
    with podresources.serving(machine.root) as kubelet:
        kubelet.give("shop/checkout-7c9f", "nginx", settings.RESOURCE, A, B)
        yield reported(machine, machine.image("2.0.2"), driver_version="2.0.2", drain=drain)


def foreign(folder: Path) -> Iterator[report.Report]:
    """Somebody installed KAE by hand; INSTALL_POLICY leaves it alone."""
    machine, image = made(folder)
    machine.add_driver("2.0.0")
    machine.set_options(uacce_mode=2, pf_q_num=1024)
    machine.load()
    yield reported(machine, image)


def dead_driver(folder: Path) -> Iterator[report.Report]:
    """The kernel's own modules came with the boot, with uacce_mode=0; the driver is to be compiled."""
    machine, image = made(folder)
    machine.load()
    yield reported(machine, image, source=settings.BUILD)


def other_kernel(folder: Path) -> Iterator[report.Report]:
    """Booted into a kernel that another mapping of the policy is for."""
    machine, image = installed(folder)
    machine.add_kernel(settings.OTHER_KERNEL)
    machine.reboot(settings.OTHER_KERNEL)
    yield reported(machine, image, pool="oe2203sp4", kernels=driver_config.Kernels(pattern=r"^5\.10\."))


def absent(folder: Path) -> Iterator[report.Report]:
    """Our driver is to go."""
    yield reported(*installed(folder), state="Absent")


def failed(folder: Path) -> Iterator[report.Report]:
    """Secure boot refuses the modules of an upgrade, for the second time; the old driver is back."""
    machine, _ = installed(folder)
    for module in machine.image("2.0.2").rglob("*.ko"):
        module.write_bytes(module.read_bytes() + b"~Module signature appended~\n")
    variable = machine.root / SECURE_BOOT
    variable.parent.mkdir(parents=True)
    variable.write_bytes(b"\x06\0\0\0\x01")
    machine.fail("modprobe uacce", "modprobe: ERROR: could not insert 'uacce': Key was rejected by service", times=1)
    working = settings.installer(machine, machine.image("2.0.2"), driver_version="2.0.2")
    working.settle()
    attempt = record.read(machine.host).attempt
    assert attempt is not None
    later_s = time.clock_gettime(time.CLOCK_BOOTTIME) + 1170
    attempt = msgspec.structs.replace(attempt, failures=2, until_s=later_s)
    record.update(machine.host, attempt=attempt, lease=settings.MINE)
    yield working.parts.report()


SITUATIONS: dict[str, Situation] = {
    "absent": absent,
    "already-right": already_right,
    "dead-driver": dead_driver,
    "failed": failed,
    "foreign": foreign,
    "new-host": new_host,
    "other-kernel": other_kernel,
    "upgrade": upgrade,
}
PROGRAMS = "upgrade"
"""The one of which the JSON is kept, too."""


@pytest.mark.parametrize("name", SITUATIONS)
def test_people_are_told_what_is_and_what_would_be(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAE_VERSION", "0.2.0")  # As the image sets it.
    with contextmanager(SITUATIONS[name])(tmp_path) as found:
        texts = {f"{name}.status.txt": report.as_status(found), f"{name}.plan.txt": report.as_plan(found)}
        if name == PROGRAMS:
            texts[f"{name}.json"] = report.as_json(found)

    for file, text in texts.items():
        assert f"{text}\n" == project.expected(HERE / file, f"{text}\n")
        assert all(line == line.rstrip() for line in text.splitlines())
        assert str(tmp_path) not in text


def test_every_report_is_of_a_situation() -> None:
    texts = {f"{name}.{kind}.txt" for name in SITUATIONS for kind in ("status", "plan")}

    assert {path.name for path in HERE.iterdir()} == {*texts, f"{PROGRAMS}.json"}


def of(current: host_state.HostState, *held: str, steps: tuple[str, ...] = (), **changes: Any) -> report.Report:
    """The report of a host as values say it is, of which something has to be changed that disturbs its users."""
    stated = settings.config(**changes)
    decided = decision.Decision(
        outcome=decision.Outcome.CHANGE, reasons=("It is not right.",), replace=True, asked=desired.asked(stated, "")
    )
    outlined = tuple(change_steps.Step(name=name, reason="Because.", act=lambda: None) for name in steps)
    return report.Report(settings=stated, current=current, decided=decided, steps=outlined, holders=held)


def tried(**changes: Any) -> host_state.HostState:
    """A host on which the smallest config was tried just now, in vain."""
    stated: dict[str, Any] = {
        "digest": desired.asked(settings.config(), ""),
        "state": "Failed",
        "reason": "The disk is full.",
        "failures": 1,
        "boot": settings.current().boot,
        "until_s": time.clock_gettime(time.CLOCK_BOOTTIME) + 90,
    }
    known = settings.current().record
    return settings.current(record=msgspec.structs.replace(known, attempt=record.FailedTry(**stated | changes)))


def fact(found: report.Report, name: str) -> str:
    """Return the value of a name in the upper part of a status, in one line."""
    said = re.search(rf"^{name} +(.*(?:\n +.*)*)", report.as_status(found), re.MULTILINE)
    assert said is not None
    return " ".join(said[1].split())


def test_json_and_text_have_the_same_steps() -> None:
    found = of(settings.current(), steps=("unload-modules", "load-modules"))

    data = json.loads(report.as_json(found))

    assert [step["name"] for step in data["steps"]] == ["unload-modules", "load-modules"]
    assert "  1 unload-modules  Because.\n  2 load-modules    Because.\n" in report.as_plan(found)


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ((), "No device is held now, so no pod is evicted, and no Lease is needed."),
        (("process 7 (gzip)",), "The device holder: pods are evicted, as their disruption budgets allow; "),
        (("pod a/b (container c: d)", "process 7 (gzip)"), "The 2 device holders: pods are evicted, "),
    ],
)
def test_it_says_whom_a_change_disturbs(held: tuple[str, ...], told: str) -> None:
    assert fact(of(settings.current(), *held), "Next").startswith(told)


def test_it_says_that_nobody_is_evicted_where_drain_is_not_enabled() -> None:
    found = of(settings.current(), "process 7 (gzip)", drain=driver_config.Drain(enabled=False, timeout_seconds=60))

    assert "no pod is evicted; the installer waits for all of them, at most 60 s." in fact(found, "Next")


def test_it_says_that_users_are_spared_when_nothing_new_was_asked_for() -> None:
    found = of(settings.current(), "process 7 (gzip)", steps=("spare-users",))

    assert fact(found, "Next").startswith(
        "The device holder may stay. To have the driver repaired sooner, end them yourself."
    )


def test_it_says_that_nobody_notices_a_change_of_files_alone() -> None:
    fault = verification.Fault(sort=verification.Sort.NODES, text="There is no udev rule.")
    decided = decision.Decision(outcome=decision.Outcome.CHANGE, reasons=(fault.text,), faults=(fault,))

    found = report.Report(
        settings=settings.config(), current=settings.current(), decided=decided, steps=(), holders=("process 7 (gzip)",)
    )

    assert fact(found, "Next").startswith("The change does not disturb the users of devices.")


def test_after_a_failure_it_says_when_the_next_try_is() -> None:
    found = of(tried())

    data = json.loads(report.as_json(found))

    assert fact(found, "Last try") == "Failed, once: The disk is full."
    assert "The next try is in 2 min, or soon after 'python -m installer retry', a change of " in fact(found, "Next")
    assert 60 < data["lastTry"].pop("nextTrySeconds") <= 90
    assert data["lastTry"] == {"state": "Failed", "reason": "The disk is full.", "failures": 1}


@pytest.mark.parametrize("changes", [{"digest": "another"}, {"boot": "another"}, {"until_s": 0.0}])
def test_a_try_of_another_wish_or_boot_or_long_ago_is_told_and_holds_up_nothing(changes: dict[str, Any]) -> None:
    found = of(tried(**changes))

    assert fact(found, "Last try") == "Failed, once: The disk is full."
    assert fact(found, "Next").endswith("A running installer begins within 60 s.")


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (record.Record(change=record.Change()), "a change was begun and did not end; before it: none installed by us"),
        (
            record.Record(installed=settings.driver(), since=SINCE, change=record.Change(kept=settings.driver())),
            f"a change was begun and did not end; before it: 2.0.1 from prebuilt, installed by us at {SINCE}",
        ),
        (record.Record(), "2.0.1, installed by others, at work"),
    ],
)
def test_it_says_whose_driver_it_is(known: record.Record, told: str) -> None:
    assert fact(of(settings.current(record=known)), "Driver") == told


def test_it_says_that_the_device_plugin_gives_nobody_a_device() -> None:
    found = of(settings.current(changing=True))

    assert fact(found, "Devices") == "'/run/kae/driver-changing' exists: the device plugin allocates no device."


def test_a_host_without_devices_is_asked_for_licence_and_bios() -> None:
    assert "\n\nNo device of recipe kae is on the PCI bus: is it licensed, " in report.as_status(
        of(settings.current(functions=()))
    )


def test_devices_show_who_has_them_and_what_is_missing() -> None:
    given = settings.function("0000:79:00.0", driver="vfio-pci", entry=None)
    virtual = settings.function("0000:79:00.1", virtual=True, vfs=0, total_vfs=0, driver=None, entry=None)
    nodeless = settings.function("0000:b9:00.0", vfs=2, entry=pci.Entry(name="hisi_hpre-1", numbers="1:3", mode=None))

    text = report.as_status(of(settings.current(functions=(given, virtual, nodeless))))

    rows = [" ".join(line.split()) for line in text.split("\n\n")[2].splitlines()[1:]]
    assert rows == [
        "0000:79:00.0 hpre vfio-pci - - 0 of 63",
        "0000:79:00.1 hpre - - - is one",
        "0000:b9:00.0 hpre hisi_hpre hisi_hpre-1 no node 2 of 63",
    ]


def test_a_module_that_lies_elsewhere_or_nowhere_is_shown_as_it_is() -> None:
    elsewhere = kmod.File(path="/opt/drivers/uacce.ko", version=None, build=None)

    text = report.as_status(of(settings.current(files={"uacce": elsewhere}, loaded={})))

    rows = [" ".join(line.split()) for line in text.split("\n\n")[1].splitlines()[1:3]]
    assert rows == ["uacce - - unknown /opt/drivers/uacce.ko", "hisi_qm - - - -"]
