"""A kernel that does not answer: nothing of ours hangs longer than its bound, and the state says why."""

import time

import pytest

from tests.vm import artifacts, conftest, host

BOUND_S = 80
"""For what takes three seconds by TCG; 90 seconds after SIGTERM systemd sends SIGKILL."""


def test_a_process_that_only_maps_a_device_is_a_holder(shared: host.Host) -> None:
    shared.have("2.0.1")
    unit = shared.map(shared.entries("hisi_zip")[0])

    said = shared.install("2.0.2")
    plan = shared.command("plan", "2.0.2")
    shared.guest.run(f"systemctl kill -s KILL {unit}")

    # Without an API server there is no Lease, so nothing was touched.
    assert said.state == "Queued", said
    assert "(python3)" in plan.output
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.1")


def test_nothing_hangs_while_a_remove_waits_for_a_user_and_all_goes_on_after_it(shared: host.Host) -> None:
    shared.have("2.0.1")
    unit = shared.map(shared.entries("hisi_zip")[0])
    shared.guest.start("rmmod hisi_zip", 600)
    shared.guest.wait_until("grep -q going /sys/module/hisi_zip/initstate")

    looks = [shared.command(name, timeout_s=BOUND_S) for name in ("status", "plan")]
    shared.ask_for("2.0.1")
    with shared.installing("2.0.1") as installer:
        said = installer.wait_for("Stuck")
        began_s = time.monotonic()
    took_s = time.monotonic() - began_s
    with shared.installing("2.0.1") as installer:
        installer.wait_for("Stuck")
        shared.guest.run(f"systemctl kill -s KILL {unit}")
        after = installer.wait_for("Ready")

    assert [look.code for look in looks] == [0, 0], looks
    assert (
        "The kernel does not finish unloading module hisi_zip, as rmmod hangs in it. It waits for process"
        in said.message
    )
    assert "(python3): end that, or reboot." in said.message
    assert took_s < BOUND_S
    assert after.state == "Ready"
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.1")


@pytest.mark.parametrize(("driver", "words"), [("oops", "it stays half loaded"), ("hang", "hangs in the kernel")])
def test_a_module_that_never_finishes_its_start_is_told_and_gone_after_a_boot(
    driver: str, words: str, boot: conftest.Boot
) -> None:
    machine = boot()
    machine.have("2.0.1")

    machine.ask_for(driver)
    installer = machine.begin(driver)
    said = installer.wait_for_rest()
    stuck = installer.wait_for("Stuck")
    # Not `stop`: systemd waits for the modprobe, too, which does not end.
    program = machine.guest.run(f"systemctl show --value -p MainPID {installer.unit}").strip()
    machine.guest.run(f"kill -TERM {program}")
    machine.guest.wait_until(f"! test -d /proc/{program}")
    status = machine.command("status", timeout_s=BOUND_S)
    machine.cut_power()
    after = machine.install(driver)

    assert words in said.message, said
    assert "Only a reboot helps" in stuck.message or words in stuck.message
    assert status.code == 0
    assert after.state == "Failed", after
    assert machine.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.1")
