"""A change that cannot succeed is told before anybody is evicted, and begins by itself once its obstacle is gone."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from installer.host import chroot, kmod, record, rpm
from installer.sources import build
from runtime import driver_config
from tests import tools
from tests.installer import homes, incidents, layouts, machines, modulefiles, settings
from tests.installer.incidents import Crew, Users
from tests.installer.machines import Machine

pytestmark = pytest.mark.usefixtures("installed")

KERNEL_USES = "The kernel itself uses "


@pytest.fixture
def stranger(foreign: Machine, tmp_path: Path) -> Machine:
    """A host on which others have installed and loaded 2.0.0."""
    return foreign.copied(tmp_path / "stranger")


def barred(machine: Machine, image: Path, **changes: Any) -> tuple[str, ...]:
    """Return what an installer of this host finds in its way."""
    return settings.wired(machine, image, **changes).report().decided.impossible


def load(machine: Machine, name: str) -> None:
    """Load one more module that uses hisi_qm."""
    file = modulefiles.ModuleFile(name=name, version="2.0.1", kernel=machine.kernel)
    machine.add_module(name, file.elf())
    machine.load(name)


CASES: dict[str, tuple[Callable[[Machine], object], Callable[[Machine], object], str]] = {
    "module-of-others": (
        lambda machine: load(machine, "spcrypt"),
        lambda machine: machine.host.run("rmmod", "spcrypt"),
        "Module spcrypt of others uses hisi_qm: unload it (rmmod spcrypt).",
    ),
    "kernel-cryptography": (
        lambda machine: machine.pin("hisi_sec2", 3),
        lambda machine: machine.pin("hisi_sec2", 0),
        f"{KERNEL_USES}hisi_sec2 (reference count 3), as dm-crypt, IPsec and kTLS do: end that use (/proc/crypto and"
        " 'dmsetup table' on the host show it), or blacklist the module and reboot.",
    ),
    "install-line": (
        lambda machine: machine.host.write("/etc/modprobe.d/site.conf", "install hisi-zip  /bin/false # us\n"),
        lambda machine: machine.host.remove("/etc/modprobe.d/site.conf"),
        "'/etc/modprobe.d/site.conf' has modprobe run '/bin/false # us' in place of loading hisi_zip: remove that",
    ),
    "options-elsewhere": (
        lambda machine: machine.host.write("/etc/modprobe.d/site.conf", "options hisi-zip pf_q_num=8\n"),
        lambda machine: machine.host.remove("/etc/modprobe.d/site.conf"),
        "'/etc/modprobe.d/site.conf' sets pf_q_num of module hisi_zip to 8, over the 256 of the policy: remove",
    ),
    "copies-elsewhere": (
        lambda machine: machine.add_driver("2.0.0", "updates/site"),
        lambda machine: machine.host.remove_folder(f"/lib/modules/{machine.kernel}/updates/site"),
        "modprobe may take hisi_hpre, hisi_qm, hisi_sec2, hisi_zip, uacce from '/lib/modules/",
    ),
}
"""What comes into the way of a change, what takes it away, and the start of the sentence that says so."""


@pytest.mark.parametrize("case", CASES)
def test_nobody_is_evicted_for_a_change_that_cannot_succeed(
    case: str, machine: Machine, newer: Path, crew: Crew, users: Users
) -> None:
    come, go, reason = CASES[case]
    users.come(incidents.POD)
    come(machine)
    job = crew.job()

    shown = job.settle()

    assert (shown.state, shown.ready, shown.reason.startswith(reason)) == ("Blocked", False, True), shown.reason
    assert (users.evicted, job.shown.taken) == ([], [])
    assert (settings.versions(machine), len(machine.entries())) == ({"2.0.1"}, 6)
    assert shown.reason in " ".join(barred(machine, newer, driver_version="2.0.2"))

    go(machine)
    assert job.settle().state == "Ready", job.shown.reason
    assert (users.evicted, settings.versions(machine)) == ([incidents.POD], {"2.0.2"})


def test_what_is_in_the_way_gives_lease_and_announcement_back(machine: Machine, crew: Crew) -> None:
    machine.pin("hisi_sec2")
    machine.host.write(homes.KAE.changing, "{}")

    assert crew.job().settle().state == "Blocked"
    assert not machine.host.path(homes.KAE.changing).exists()


def test_a_change_that_was_begun_ends_whatever_is_in_its_way(machine: Machine, newer: Path, crew: Crew) -> None:
    machine.pin("hisi_sec2")
    record.update(
        machine.host, change=record.Change(loaded=modulefiles.DRIVER, kept=record.read(machine.host).installed)
    )

    assert barred(machine, newer) == ()


@pytest.mark.parametrize("line", ["install hisi_zip /sbin/modprobe --ignore-install hisi_zip", "blacklist hisi-zip"])
def test_a_line_that_keeps_nothing_from_loading_is_shown_alone(line: str, machine: Machine, newer: Path) -> None:
    machine.host.write("/etc/modprobe.d/site.conf", f"{line}\n")

    made = settings.wired(machine, newer, driver_version="2.0.2").report()

    verb, _, command = line.replace("hisi-zip", "hisi_zip").partition(" ")
    words = f"{verb} {command.partition(' ')[2]}".strip()
    assert made.decided.impossible == ()
    assert f"/etc/modprobe.d/site.conf says of hisi_zip: {words}." in made.others


@pytest.mark.parametrize("held", [1, 3])
def test_open_devices_are_no_use_by_the_kernel(held: int, machine: Machine, newer: Path) -> None:
    for pid in range(held):
        machine.hold(4711 + pid, "hisi_hpre-0")

    assert barred(machine, newer) == ()

    # Each of them may have memory for DMA, which counts in the module of its device.
    machine.pin("hisi_sec2", held + 1)
    assert barred(machine, newer)[0].startswith(KERNEL_USES)


def test_open_devices_of_the_kernels_own_modules_are_no_use_by_the_kernel_either(tmp_path: Path, image: Path) -> None:
    machine = Machine(tmp_path / "own")
    machine.set_options(uacce_mode=1)
    machine.load()
    machine.hold(4711, "hisi_hpre-0")
    machine.pin("hisi_hpre")  # openEuler's own uacce counts memory for DMA as well.
    assert barred(machine, image, install_policy="Always") == ()

    machine.release(4711)
    machine.pin("hisi_hpre", 0)
    machine.pin("hisi_sec2")

    assert barred(machine, image, install_policy="Always")[0].startswith(f"{KERNEL_USES}hisi_sec2 (reference count 1)")


def test_a_module_that_serves_virtual_machines_counts_as_well(machine: Machine, newer: Path) -> None:
    load(machine, "hisi_migration")
    assert barred(machine, newer) == ()

    machine.pin("hisi_migration")

    assert barred(machine, newer)[0].startswith(f"{KERNEL_USES}hisi_migration")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/modprobe.d/10-site.conf", "options hisi_zip pf_q_num=8\n"),
        ("/usr/lib/modprobe.d/hisi_zip.conf", "options hisi_zip pf_q_num=8\n"),
        ("/etc/modprobe.d/site.conf", "options hisi_zip pf_q_num=256 perf_mode=1\n"),
        ("/etc/modprobe.d/site.conf.rpmsave", "options hisi_zip pf_q_num=8\n"),
    ],
    ids=["read-earlier", "hidden-by-ours", "of-the-same-value", "not-read"],
)
def test_options_that_do_not_win_are_in_nobodys_way(path: str, text: str, machine: Machine, newer: Path) -> None:
    machine.host.write(path, text)

    assert barred(machine, newer) == ()


def test_the_kernels_command_line_wins_over_every_file(machine: Machine, newer: Path) -> None:
    machine.host.write("/proc/cmdline", "quiet hisi_zip.pf_q_num=8 root=/dev/sda1\n")

    assert barred(machine, newer) == (
        "'/proc/cmdline' sets pf_q_num of module hisi_zip to 8, over the 256 of the policy: remove that.",
    )


@pytest.mark.parametrize(
    ("folder", "lines", "obstructs"),
    [
        ("extra", "search updates extra built-in weak-updates\n", False),
        ("weak-updates", "search updates extra built-in weak-updates\n", False),
        ("extra", "search extra updates built-in\n", True),
        ("extra", "search updates built-in\noverride hisi_zip * extra\n", True),
        ("extra", "override hisi_sec2 * weak-updates\n", False),
        ("updates", "", True),
    ],
    ids=["extra", "weak-updates", "extra-first", "override", "override-of-another", "same-rank"],
)
def test_the_order_of_depmod_says_which_copy_obstructs(
    folder: str, lines: str, obstructs: bool, machine: Machine, newer: Path
) -> None:
    machine.host.write("/etc/depmod.d/dist.conf", lines)
    file = modulefiles.ModuleFile(name="hisi_zip", version="2.0.1", kernel=machine.kernel)
    place = f"/lib/modules/{machine.kernel}/{folder}"
    layouts.put(machine.root / f"{place[1:]}/hisi-zip.ko.xz", file.elf())
    machine.host.run("depmod", "-a", machine.kernel)

    said = barred(machine, newer)

    assert [place in sentence for sentence in said] == [True] * obstructs


@pytest.mark.parametrize(
    "lines",
    [
        "search updates extra built-in weak-updates\n",
        "search extra updates built-in\n",
        "search built-in updates\n",
        "search updates built-in\noverride hisi_zip * extra\n",
        "",
    ],
    ids=["openeuler", "extra-first", "built-in-first", "override", "default"],
)
def test_the_real_depmod_takes_a_copy_elsewhere_where_one_obstructs(lines: str, tmp_path: Path) -> None:
    base = tmp_path / f"lib/modules/{machines.KERNEL}"
    module = modulefiles.ModuleFile(name="hisi_zip", version="2.0.1", kernel=machines.KERNEL).elf()
    for folder in ("updates/kae", "extra", "weak-updates", "kernel/crypto"):
        layouts.put(base / folder / "hisi_zip.ko", module)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        layouts.put(base / name, b"")
    layouts.put(tmp_path / "etc/depmod.d/site.conf", lines.encode())

    depmod = tools.require("depmod", "kmod")
    command = [depmod, "-C", str(tmp_path / "etc/depmod.d"), "-b", str(tmp_path), machines.KERNEL]
    subprocess.run(command, check=True, capture_output=True)
    taken = (base / "modules.dep").read_text().partition(":")[0]
    rivals = kmod.rivals(chroot.Host(tmp_path, homes.KAE), machines.KERNEL, ("hisi_zip",), "updates/kae")

    assert bool(rivals) == (taken != "updates/kae/hisi_zip.ko")


def test_for_the_kernels_own_modules_every_copy_that_hides_them_obstructs(stranger: Machine, image: Path) -> None:
    (sentence,) = barred(stranger, image, source=settings.IN_TREE, install_policy="Always")

    assert sentence.startswith("modprobe may take ")


@pytest.mark.parametrize("version", ["", "2.0.3"], ids=["no-file", "another-file"])
def test_a_driver_of_others_that_could_not_come_back_is_untouched(version: str, stranger: Machine, image: Path) -> None:
    place = f"/lib/modules/{stranger.kernel}"
    stranger.host.remove_folder(f"{place}/extra")
    stranger.host.remove_folder(f"{place}/kernel")
    stranger.host.run("depmod", "-a", stranger.kernel)
    if version:
        stranger.add_driver(version)

    said = barred(stranger, image, install_policy="Always")

    assert said == (
        "The loaded uacce, hisi_qm, hisi_hpre, hisi_sec2, hisi_zip of others came from no file that modprobe knows"
        " (insmod, initramfs), so a failure could not bring them back: install their files for kernel"
        f" {machines.KERNEL}, or unload them.",
    )


def test_a_dead_driver_without_files_is_replaced_as_nothing_is_lost(stranger: Machine, image: Path) -> None:
    stranger.unload()
    stranger.set_options(uacce_mode=0)
    stranger.load()
    stranger.host.remove_folder(f"/lib/modules/{stranger.kernel}/extra")

    assert barred(stranger, image) == ()


def test_a_removal_asks_for_no_parameter_and_no_copy(machine: Machine, newer: Path) -> None:
    machine.host.write("/etc/modprobe.d/site.conf", "options hisi_zip pf_q_num=8\n")
    machine.add_driver("2.0.0", "updates/site")

    assert barred(machine, newer, state="Absent") == ()
    machine.pin("hisi_sec2")
    assert barred(machine, newer, state="Absent")[0].startswith(KERNEL_USES)


def test_a_driver_of_others_of_which_a_kind_is_dead_is_not_ready_and_stays(stranger: Machine, image: Path) -> None:
    stranger.unload()
    stranger.let_die("hisi_hpre")
    stranger.load()
    job = settings.installer(stranger, image)

    shown = job.settle()

    assert (shown.state, shown.ready) == ("Blocked", False)
    assert shown.reason == (
        "A driver that others installed serves no hpre device, although the host has some; the install policy is"
        " IfNotPresent, so it stays as it is."
    )
    assert (settings.versions(stranger), len(stranger.entries())) == ({"2.0.0"}, 4)
    job.parts.close()

    stranger.mend()
    settings.installed(stranger, image, install_policy="Always")
    assert (settings.versions(stranger), len(stranger.entries())) == ({"2.0.1"}, 6)


def test_a_kind_that_only_the_kernel_is_to_use_is_not_dead(stranger: Machine, image: Path) -> None:
    stranger.unload()
    stranger.let_die("hisi_hpre")
    stranger.load()
    asked = settings.config().parameters | {"hisi_hpre": {"uacce_mode": 0}}

    assert settings.installed(stranger, image, module_parameters=asked).state == "Foreign"


def test_a_driver_that_only_the_kernel_uses_is_present_where_the_policy_says_so(stranger: Machine, image: Path) -> None:
    stranger.unload()
    stranger.set_options(uacce_mode=0)
    stranger.load()
    assert stranger.entries() == {}

    shown = settings.installed(stranger, image, present_when="Loaded")

    assert (shown.state, shown.reason) == (
        "Foreign",
        "Others have loaded hisi_hpre, hisi_sec2, hisi_zip; the install policy is IfNotPresent, so they stay as they"
        " are.",
    )
    assert settings.versions(stranger) == {"2.0.0"}
    assert settings.installed(stranger, image).state == "Ready"
    assert settings.versions(stranger) == {"2.0.1"}


def test_a_host_without_modules_gets_the_driver_whatever_counts_as_present(tmp_path: Path, image: Path) -> None:
    machine = Machine(tmp_path / "empty")

    assert settings.installed(machine, image, present_when="Loaded").state == "Ready"


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "wb")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@contextlib.contextmanager
def rpm_at_work(machine: Machine) -> Iterator[int]:
    """Another process holds the lock of the host's rpm; its number."""
    lock = machine.root / "var/lib/rpm/.rpm.lock"
    layouts.put(lock, b"")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        layouts.put(machine.root / f"proc/{process.pid}/comm", b"dnf\n")
        yield process.pid
        process.kill()


def test_a_change_of_packages_waits_for_rpm_before_evictions(machine: Machine, image: Path) -> None:
    source = driver_config.Source(packages=driver_config.Packages(names=("kae-driver",)))
    with rpm_at_work(machine) as pid:
        assert barred(machine, image, source=source) == (
            f"The change waits for process {pid} (dnf), which holds the lock of the host's rpm database.",
        )
        assert barred(machine, image, driver_version="2.0.2") == ()
    assert barred(machine, image, source=source) == ()


def test_to_a_pod_with_processes_of_its_own_the_kernels_list_names_the_holder_of_a_lock(machine: Machine) -> None:
    (machine.root / "proc/locks").write_text(
        "1: POSIX  ADVISORY  WRITE 4711 fe:00:9978672 0 EOF\n"
        "1: -> POSIX  ADVISORY  WRITE 4712 fe:00:9978672 0 EOF\n"
        "2: FLOCK  ADVISORY  WRITE 33 00:19:1244 0 EOF\n"
    )

    assert [rpm.holder(machine.host, inode) for inode in (9978672, 1244, 7)] == [4711, 33, 0]


@pytest.mark.parametrize("folder", ["updates/site", "extra/site"])
def test_copies_of_modules_that_no_package_owns_obstruct_packages(folder: str, machine: Machine, image: Path) -> None:
    machine.add_driver("1.9.9", folder)
    source = driver_config.Source(packages=driver_config.Packages(names=("kae-driver",)))

    (said,) = barred(machine, image, source=source)

    assert (
        f"from '/lib/modules/{machine.kernel}/{folder}' instead of the new driver: remove these files or their package"
        in said
    )


def test_what_comes_into_the_way_in_staging_stops_the_change(machine: Machine, crew: Crew, users: Users) -> None:
    users.come(incidents.POD)
    job = crew.job()
    job.at("store-driver", lambda: machine.pin("hisi_sec2"))

    shown = job.settle()

    assert (shown.state, shown.reason.startswith(KERNEL_USES)) == ("Failed", True)
    assert (users.evicted, settings.versions(machine)) == ([], {"2.0.1"})


ENFORCED = "sys/module/module/parameters/sig_enforce"
LOCKDOWN = "sys/kernel/security/lockdown"
EFI = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SECURE = (EFI, b"\x06\0\0\0\x01")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (((ENFORCED, b"Y\n"),), "module.sig_enforce is set"),
        (((LOCKDOWN, b"none [integrity] confidentiality\n"),), "the kernel is locked down"),
        (((LOCKDOWN, b"none integrity [confidentiality]\n"),), "the kernel is locked down"),
        ((SECURE, (ENFORCED, b"N\n")), ""),
        ((SECURE, (LOCKDOWN, b"[none] integrity confidentiality\n"), (ENFORCED, b"N\n")), ""),
        ((), ""),
    ],
    ids=["sig_enforce", "integrity", "confidentiality", "secure-boot", "secure-boot-without-lockdown", "nothing"],
)
def test_modules_without_a_needed_signature_are_refused(
    files: tuple[tuple[str, bytes], ...], why: str, machine: Machine, crew: Crew
) -> None:
    for path, content in files:
        layouts.put(machine.root / path, content)
    job = crew.job()

    shown = job.settle()

    if why:
        assert (shown.state, job.shown.taken[-1]) == ("Failed", "store-driver")
        assert shown.reason == (
            f"The running kernel refuses modules without a signature ({why}), and there is none in hisi_hpre.ko,"
            " hisi_qm.ko, hisi_sec2.ko, hisi_zip.ko, uacce.ko: sign them when the image is built, or choose another"
            " source."
        )
    else:
        assert (shown.state, settings.versions(machine)) == ("Ready", {"2.0.2"})


def test_modules_that_sign_file_has_signed_are_taken(machine: Machine, newer: Path, crew: Crew, tmp_path: Path) -> None:
    sign, openssl = tools.require("sign-file", "linux-headers-generic"), tools.require("openssl", "openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.der"
    request = [openssl, "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kae", "-days", "2"]
    subprocess.run(
        [*request, "-keyout", str(key), "-outform", "DER", "-out", str(certificate)], check=True, capture_output=True
    )
    for module in newer.rglob("*.ko"):
        subprocess.run([sign, "sha256", str(key), str(certificate), str(module)], check=True)
    layouts.put(machine.root / ENFORCED, b"Y\n")

    assert crew.job().settle().state == "Ready"


@pytest.mark.parametrize(
    ("group", "files", "most"),
    [
        ("0::/", {"cpu.max": "200000 100000"}, 2),
        (
            "0::/kubepods/pod1/c1",
            {"kubepods/pod1/cpu.max": "150000 100000", "kubepods/pod1/c1/cpu.max": "max 100000"},
            2,
        ),
        ("0::/kubepods", {"kubepods/cpu.max": "10000 100000"}, 1),
        ("4:cpu,cpuacct:/kubepods", {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ("4:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ("0::/", {}, 64),
    ],
    ids=["root", "above", "less-than-one", "version-1", "version-1-without", "none"],
)
def test_as_many_compilers_run_as_the_quota_allows(
    group: str, files: dict[str, str], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    layouts.put(tmp_path / "proc/self/cgroup", f"12:pids:/x\n{group}\n".encode())
    for path, text in files.items():
        layouts.put(tmp_path / "sys/fs/cgroup" / path, f"{text}\n".encode())

    assert build.jobs(tmp_path) == most


def test_a_package_with_other_modules_stays(stranger: Machine, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = ["/lib/modules/5.10/extra/hisi_zip.ko.xz", "/lib/modules/5.10/extra/hisi-rde.ko", "/etc/bundle.conf"]
    monkeypatch.setattr(rpm, "owners", lambda _, files: dict.fromkeys(files, "bundle-1-1.aarch64"))
    monkeypatch.setattr(rpm, "_ask", lambda *_: "\n".join(brought))
    assert barred(stranger, image, install_policy="Always") == ()

    brought.append("/lib/modules/5.10/extra/hns3.ko.xz")

    assert barred(stranger, image, install_policy="Always") == (
        "Package bundle-1-1.aarch64, which the install policy Always would erase, holds other modules, too (hns3):"
        " replace it by a package without the accelerators' driver, or set IfNotPresent.",
    )
