"""Packages that the host's real rpm refuses to install: its own words reach the user."""

import fcntl
import subprocess
import threading

import pytest

from installer.host import chroot, rpm
from runtime import errors
from tests.host.repositories import install, installed


def refusal(host: chroot.Host, *names: str, shelf: str = "odd") -> str:
    with pytest.raises(errors.Failure) as caught:
        install(host, *names, shelf=shelf)
    return str(caught.value)


class Lock:
    def __init__(self, host: chroot.Host) -> None:
        self._file = host.path("/var/lib/rpm/.rpm.lock").open("a+")
        fcntl.lockf(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        self._file.close()


def test_a_script_that_refuses_is_told_with_its_words_and_the_old_version_stays(host: chroot.Host) -> None:
    install(host, "kae-driver-2.0.1-1")

    reason = refusal(host, "kae-driver-3.5-1")

    assert reason.startswith("The host's rpm refuses: ")
    assert "no licence; error: %prein(kae-driver-3.5-1.noarch) scriptlet failed" in reason
    assert installed(host) == ["kae-driver-2.0.1-1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kae-driver-3.2-1", "libnuma >= 3 is needed by kae-driver-3.2-1.noarch."),
        ("kae-driver-3.3-1", "libnuma conflicts with kae-driver-3.3-1.noarch."),
    ],
)
def test_a_dependency_that_is_missing_or_conflicts_is_named(name: str, words: str, host: chroot.Host) -> None:
    assert refusal(host, name).endswith(f"error: Failed dependencies; {words}")


def test_a_file_of_another_package_is_named(host: chroot.Host) -> None:
    install(host, "uadk-tools-2.0.1-1", shelf="odd")

    assert (
        "file /usr/local/lib/libwd.so.2 from install of kae-driver-2.0.1-1.noarch conflicts with file from package"
        " uadk-tools-2.0.1-1.noarch"
    ) in refusal(host, "kae-driver-2.0.1-1", shelf="both")


def test_a_full_disk_is_named_and_nothing_changes(host: chroot.Host) -> None:
    install(host, "kae-driver-2.0.1-1")
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(host.path("/opt"))), check=True)

    assert "installing package kae-driver-3.4-1.noarch needs 2MB more space on the /opt filesystem" in refusal(
        host, "kae-driver-3.4-1"
    )
    assert installed(host) == ["kae-driver-2.0.1-1"]


def test_a_read_only_folder_is_named_and_the_old_version_stays(host: chroot.Host) -> None:
    install(host, "kae-driver-2.0.1-1")
    modules = str(host.path("/usr/lib/modules"))
    subprocess.run(("mount", "--bind", modules, modules), check=True)
    subprocess.run(("mount", "-o", "remount,bind,ro", modules), check=True)

    reason = refusal(host, "kae-driver-2.0.2-1", shelf="both")

    assert "unpacking of archive failed on file /lib/modules/" in reason
    assert "Read-only file system" in reason
    assert installed(host) == ["kae-driver-2.0.1-1"]


def test_a_file_that_is_missing_is_named(host: chroot.Host) -> None:
    assert refusal(host, "kae-driver-9.9-1") == (
        "The host's rpm refuses: error: open of /srv/odd/kae-driver-9.9-1.noarch.rpm failed: No such file or directory."
    )


def test_the_lock_of_another_program_is_waited_for(host: chroot.Host) -> None:
    lock = Lock(host)

    class Released(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            del timeout
            lock.release()
            return False

    host.stop = Released()
    install(host, "kae-driver-2.0.1-1")

    assert installed(host) == ["kae-driver-2.0.1-1"]


def test_the_lock_of_a_program_that_does_not_end_is_named(host: chroot.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpm, "LOCK_S", 0)
    lock = Lock(host)

    with pytest.raises(errors.Failure, match="has held the host's rpm database") as caught:
        install(host, "kae-driver-2.0.1-1")
    assert str(caught.value) == (
        "Another program has held the host's rpm database for 0 seconds: 'fuser /var/lib/rpm/.rpm.lock' on the host"
        " names it."
    )
    lock.release()


def test_who_is_to_end_does_not_wait_for_a_lock(host: chroot.Host) -> None:
    lock = Lock(host)
    host.stop.set()

    with pytest.raises(errors.Failure, match="has held the host's rpm database"):
        install(host, "kae-driver-2.0.1-1")
    lock.release()
    install(host, "kae-driver-2.0.1-1")
    assert installed(host) == ["kae-driver-2.0.1-1"]


def test_a_database_that_cannot_be_read_does_not_mean_that_nothing_is_installed(host: chroot.Host) -> None:
    install(host, "kae-driver-2.0.1-1")
    for path in host.path("/var/lib/rpm").iterdir():
        path.write_bytes(b"nothing")

    with pytest.raises(errors.Failure, match="cannot open Packages database in /var/lib/rpm"):
        rpm.installed(host, ("kae-driver",))


def test_a_host_without_rpm_is_named_so(host: chroot.Host) -> None:
    host.remove("/usr/bin/rpm")

    with pytest.raises(errors.Failure) as caught:
        rpm.installed(host, ("kae-driver",))
    assert str(caught.value) == "The host has no rpm, which packages need: install it, or choose another source."
