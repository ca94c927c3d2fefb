"""A driver that panics as it loads: one crash, then what the host had before, and no second crash."""

import pytest

from tests.vm import artifacts, host

DOWN = "The host went down during the change to the driver 2.0.4. The host is back in its previous state."


def crash(shared: host.Host) -> None:
    number, panics = len(shared.guest.boots) + 1, panicked(shared)
    shared.ask_for("panic")
    shared.begin("panic")
    shared.guest.wait_for_boot(number)
    shared.prepare()
    assert panicked(shared) == panics + 1


def panicked(shared: host.Host) -> int:
    return shared.guest.console.read_text(errors="replace").count("panics on load")


def test_a_first_driver_that_panics_crashes_the_host_once_and_leaves_none(shared: host.Host) -> None:
    crash(shared)
    assert shared.loaded() == {}

    said = shared.install("panic")

    assert said.state == "Failed"
    assert DOWN in said.message
    assert shared.loaded() == {}
    assert shared.files() == []
    shared.reboot()
    assert shared.install("panic").state == "Failed"
    assert shared.loaded() == {}
    assert panicked(shared) == 1


@pytest.mark.short
def test_an_upgrade_that_panics_crashes_the_host_once_and_the_driver_before_is_back(shared: host.Host) -> None:
    shared.have("2.0.1")
    panics = panicked(shared) + 1
    crash(shared)
    assert shared.loaded() == {}

    said = shared.install("panic")

    assert said.state == "Failed"
    assert DOWN in said.message
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.1")
    assert shared.guest.run("udevadm settle && stat -L -c %a /dev/hisi_*").split() == ["666"] * 12
    for _ in range(2):
        shared.reboot()
        assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.1")
        assert shared.install("panic").message == said.message
    assert panicked(shared) == panics


def test_a_new_version_is_tried_after_a_crash(shared: host.Host) -> None:
    assert shared.install("2.0.1").state == "Ready"  # The crash of the test before is forgotten with its wish.
    crash(shared)

    said = shared.install("2.0.2")

    assert said.state == "Ready", said
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.2")
