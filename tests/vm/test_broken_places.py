"""Places of a host that break, on a real kernel: nothing hangs, nothing is half done, and links are followed."""

import time
from collections.abc import Iterator

import pytest

from tests.vm import artifacts, host

BOUND_S = 80
"""For what takes three seconds by TCG; 90 seconds after SIGTERM systemd sends SIGKILL."""

TENANT = """
import pathlib, time
from tests import fuse
with fuse.dead(pathlib.Path("/mnt"), "hisi_hpre-0"):
    pathlib.Path("/run/dead").touch()
    time.sleep(1e6)
"""
"""A process that has a file of a dead file system open, which has a device node's name."""

NEW = dict.fromkeys(artifacts.MODULES, "2.0.2")
OLD = dict.fromkeys(artifacts.MODULES, "2.0.1")


@pytest.fixture
def old(shared: host.Host) -> host.Host:
    """A host with the driver 2.0.1."""
    shared.have("2.0.1")
    return shared


def test_an_open_file_of_a_dead_file_system_hangs_no_change(old: host.Host) -> None:
    old.guest.run("modprobe fuse")
    old.guest.write("/run/tenant.py", TENANT)
    old.guest.run(f"systemd-run -q --unit=tenant env {host.ENVIRONMENT} python3 /run/tenant.py")
    old.guest.wait_until("test -e /run/dead")

    with old.installing("2.0.2") as installer:
        said = installer.wait_for_rest(BOUND_S)
        began_s = time.monotonic()
    took_s = time.monotonic() - began_s
    old.guest.run("systemctl kill -s KILL tenant; rm /run/dead; umount -l /mnt")

    assert (said.state, old.loaded()) == ("Ready", NEW), said
    assert took_s < BOUND_S


@pytest.fixture
def few_inodes(old: host.Host) -> Iterator[host.Host]:
    """The folder of the store is a file system with two free inodes, and the new driver is not in it."""
    old.guest.run("rm -rf /var/lib/kae/drivers/*2.0.2*")
    old.guest.run("cp -a /var/lib/kae /run/kae-copy && mount -t tmpfs -o nr_inodes=4096 none /var/lib/kae")
    old.guest.run("cp -a /run/kae-copy/. /var/lib/kae && rm -r /run/kae-copy")
    old.guest.run("mount -o remount,nr_inodes=$(($(find /var/lib/kae | wc -l) + 2)) /var/lib/kae")
    yield old
    old.guest.run("cp -a /var/lib/kae /run/kae-copy && umount -l /var/lib/kae && umount -l /host/var/lib/kae || true")
    old.guest.run("rm -r /var/lib/kae && mv /run/kae-copy /var/lib/kae")


def test_a_change_for_which_inodes_are_missing_does_not_begin(few_inodes: host.Host) -> None:
    with few_inodes.installing("2.0.2") as installer:
        said = installer.wait_for_rest()
        loaded = few_inodes.loaded()
        few_inodes.guest.run("mount -o remount,nr_inodes=4096 /var/lib/kae")
        few_inodes.command("retry", "2.0.2")
        after = installer.wait_for("Ready")

    assert (said.state, loaded) == ("Failed", OLD), said
    assert "is full" in said.message
    assert (after.state, few_inodes.loaded()) == ("Ready", NEW)


@pytest.fixture
def linked(old: host.Host) -> Iterator[host.Host]:
    """Folders of the host are absolute links to a larger disk."""
    places = ("/opt", "/var/lib/kae", "/etc/modprobe.d")
    for place in places:
        old.guest.run(f"mkdir -p /srv{place.rpartition('/')[0]} && mv {place} /srv{place} && ln -s /srv{place} {place}")
    yield old
    for place in places:
        old.guest.run(f"rm {place} && mv /srv{place} {place}")


def test_folders_that_are_absolute_links_are_folders(linked: host.Host) -> None:
    kept = linked.install("2.0.1")
    said = linked.install("2.0.2")

    assert (kept.state, said.state, linked.loaded()) == ("Ready", "Ready", NEW), said
    assert linked.coldplug() == NEW
    linked.reboot()
    assert linked.loaded() == NEW


def test_a_pipe_among_the_options_is_told_and_forgotten_once_it_is_gone(old: host.Host) -> None:
    old.guest.run("mkfifo /etc/modprobe.d/zz.conf")

    with old.installing("2.0.1") as installer:
        said = installer.wait_for("Stuck")
        began_s = time.monotonic()
    took_s = time.monotonic() - began_s
    old.guest.run("rm /etc/modprobe.d/zz.conf")

    assert "/etc/modprobe.d/zz.conf" in said.message, said
    assert took_s < BOUND_S
    assert old.install("2.0.1").state == "Ready"
    assert old.loaded() == OLD
