"""Installation and removal by the host's real rpm, and how a failure quotes its output."""

import os
import signal
import subprocess

import pytest

from installer.host import chroot, rpm
from runtime import errors
from tests.cluster.local import waiting
from tests.host import repositories
from tests.host.repositories import install, installed
from tests.installer import machines

OPTIONS = "/etc/modprobe.d/hisi_hpre.conf"
MODULE = f"/lib/modules/{machines.KERNEL}/extra/hisi_hpre.ko"


def chosen(host: chroot.Host) -> str:
    return host.run("modinfo", "-k", machines.KERNEL, "-F", "version", "hisi_hpre").strip()


def files(host: chroot.Host) -> set[str]:
    return {str(path) for path in host.path("/usr/local").rglob("*") if path.is_file()}


def test_packages_are_installed_with_what_they_bring(host: chroot.Host, machine: machines.Machine) -> None:
    install(host, "kae-driver-2.0.1-1", "kae-openssl-2.0.1-1")

    assert rpm.installed(host, ("kae-driver", "kae-openssl", "kae-zip")) == {
        "kae-driver": "kae-driver-2.0.1-1.noarch",
        "kae-openssl": "kae-openssl-2.0.1-1.noarch",
    }
    assert chosen(host) == "2.0.1"
    assert machine.loaded()["hisi_hpre"][0] == "2.0.1"
    assert machine.parameters("hisi_hpre")["pf_q_num"] == 256


def test_the_files_of_a_package_are_known_without_installing_it(host: chroot.Host) -> None:
    brought = rpm.files_of(host, repositories.file("kae-driver-2.0.1-1"))

    assert {MODULE, OPTIONS, "/usr/local/lib/libwd.so.2"} <= set(brought)
    assert installed(host) == []


@pytest.mark.parametrize(("old", "new"), [("2.0.1", "2.0.2"), ("2.0.2", "2.0.1")])
def test_any_version_takes_the_place_of_any_other(host: chroot.Host, old: str, new: str) -> None:
    names = ("kae-driver", "kae-openssl", "kae-zip")
    install(host, *(f"{name}-{old}-1" for name in names))

    install(host, *(f"{name}-{new}-1" for name in names))

    assert installed(host) == [f"{name}-{new}-1" for name in names]
    assert host.path("/usr/local/lib/engines-1.1/kae.so").read_text() == new
    assert chosen(host) == new


def test_scripts_leave_no_driver_after_an_upgrade_and_no_options_after_a_removal(
    host: chroot.Host, machine: machines.Machine
) -> None:
    install(host, "kae-driver-2.0.1-1")

    install(host, "kae-driver-2.0.2-1")

    # The old package's %preun unloads, and it comes after the new one's %post: loading is up to the installer.
    assert machine.loaded() == {}
    host.write(OPTIONS, "options hisi_hpre uacce_mode=2 pf_q_num=512\n")
    rpm.erase(host, ("kae-driver",))
    assert not host.path(OPTIONS).exists()


def test_a_file_that_was_lost_comes_back_with_the_same_version(host: chroot.Host) -> None:
    install(host, "kae-driver-2.0.1-1")
    host.remove(MODULE)

    install(host, "kae-driver-2.0.1-1")

    assert host.path(MODULE).exists()
    assert installed(host) == ["kae-driver-2.0.1-1"]


def test_an_old_version_whose_script_fails_goes_all_the_same(host: chroot.Host) -> None:
    install(host, "kae-driver-3.6-1", shelf="odd")

    install(host, "kae-driver-2.0.1-1")

    assert installed(host) == ["kae-driver-2.0.1-1"]
    assert chosen(host) == "2.0.1"


def test_an_installation_that_was_killed_is_mended_by_another(host: chroot.Host) -> None:
    install(host, "kae-driver-2.0.1-1")
    os.mkfifo(host.path("/run/wait"))
    command = ("chroot", str(host.root), "rpm", "-U", repositories.file("kae-driver-3.9-1", "odd"))
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        waiting.until("the script", host.path("/run/waits").exists)
        os.killpg(process.pid, signal.SIGKILL)
    host.remove("/run/wait")
    assert installed(host) == ["kae-driver-2.0.1-1", "kae-driver-3.9-1"]

    install(host, "kae-driver-2.0.1-1")

    assert installed(host) == ["kae-driver-2.0.1-1"]
    assert chosen(host) == "2.0.1"


def test_a_removal_leaves_nothing_and_a_second_one_does_nothing(host: chroot.Host) -> None:
    before = files(host)
    install(host, "kae-driver-2.0.1-1", "kae-zip-2.0.1-1")

    assert rpm.erase(host, ("kae-driver", "kae-zip-2.0.1-1.noarch", "kae-openssl")) == ()
    assert installed(host) == []
    assert files(host) == before
    assert rpm.erase(host, ("kae-driver", "kae-zip-2.0.1-1.noarch", "kae-openssl")) == ()


def test_a_removal_names_one_version_and_spares_another(host: chroot.Host) -> None:
    install(host, "kae-driver-2.0.2-1")

    assert rpm.erase(host, ("kae-driver-2.0.1-1.noarch",)) == ()
    assert installed(host) == ["kae-driver-2.0.2-1"]


def test_a_removal_spares_what_other_packages_need(host: chroot.Host) -> None:
    install(host, "kae-driver-3.8-1", "libuadk-1.0-1", "kae-zip-3.1-1", shelf="odd")

    assert rpm.erase(host, ("libuadk-1.0-1.noarch", "kae-driver")) == ("libuadk-1.0-1.noarch",)
    assert installed(host) == ["kae-zip-3.1-1"]
    assert rpm.erase(host, ("libuadk", "kae-zip")) == ()


def test_a_removal_whose_script_fails_goes_on(host: chroot.Host) -> None:
    install(host, "kae-driver-3.6-1", shelf="odd")

    assert rpm.erase(host, ("kae-driver",)) == ()
    assert installed(host) == []


def test_the_headers_of_a_kernel_are_installed_by_its_name(host: chroot.Host) -> None:
    rpm.install_from(host, f"kernel-devel-{machines.KERNEL}", rpm.Repositories((repositories.BOTH,)))

    headers = host.path(f"/usr/src/kernels/{machines.KERNEL}")
    assert (headers / "include/config/kernel.release").read_text() == f"{machines.KERNEL}\n"


def test_what_is_installed_from_a_repository_may_replace_a_newer_version(host: chroot.Host) -> None:
    install(host, "kae-driver-2.0.2-1")

    rpm.install_from(host, "kae-driver-2.0.1-1", rpm.Repositories((repositories.BOTH,)))

    assert installed(host) == ["kae-driver-2.0.1-1"]


def test_nothing_unsigned_is_installed_from_a_repository(host: chroot.Host) -> None:
    with pytest.raises(errors.Failure, match="no valid signature"):
        rpm.install_from(host, "kae-driver", rpm.Repositories((repositories.UNSIGNED,)))
    assert installed(host) == []


def test_an_output_of_eight_lines_is_quoted_whole() -> None:
    output = "".join(f"line {number}.\n" for number in range(1, 9))

    assert rpm.quoted(output) == "; ".join(f"line {number}" for number in range(1, 9))


def test_a_mark_stands_for_the_first_lines_of_a_longer_output() -> None:
    output = "".join(f"line {number}.\n" for number in range(1, 10))

    assert rpm.quoted(output) == f"… {'; '.join(f'line {number}' for number in range(2, 10))}"


def test_a_mark_stands_for_the_start_of_a_long_line() -> None:
    assert rpm.quoted("x" * 900) == "x" * 900
    assert rpm.quoted("y" + "x" * 900) == f"… {'x' * 900}"


def test_repeated_and_empty_lines_are_quoted_once_and_not_marked() -> None:
    assert rpm.quoted("error: a\n\n" * 9) == "error: a"


def test_a_program_that_prints_nothing_does_not_say_why() -> None:
    assert str(rpm.Refused("rpm", "\n")) == "The host's rpm refuses: it does not say why."
