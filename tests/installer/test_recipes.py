"""The driver of a recipe without devices of the class uacce: modules out of payloads, device nodes, and files."""

import contextlib
import gzip
import json
import lzma
import subprocess
from pathlib import Path

import pytest

from installer.change import transaction
from installer.decide import verification
from installer.host import host_state, record
from runtime import driver_config
from tests.installer import homes, incidents, layouts, machines, modulefiles, settings, stacks
from tests.installer.incidents import Crew, Job, Users
from tests.installer.machines import Machine

UNVERSIONED = {name: value for name, value in stacks.KMOD.items() if name != "driver_version"}
HOME = f"/lib/modules/{machines.KERNEL}/updates/kae-simple-kmod"


def text(machine: Machine, path: str) -> str:
    """The text of a file of the host."""
    return machine.host.path(path).read_text()


def test_modules_of_a_payload_are_loaded_with_their_parameters(machine: Machine, tmp_path: Path) -> None:
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))

    shown = settings.installed(machine, image, **stacks.KMOD)

    assert shown.reason == "The driver 1.0 is loaded and verified."
    assert {name: version for name, (version, _) in machine.loaded().items()} == {
        "simple_kmod": "1.0",
        "simple_procfs_kmod": "1.0",
    }
    assert machine.parameters("simple_procfs_kmod") == {"number": 7}
    assert sorted(path.name for path in machine.host.path(HOME).iterdir()) == [
        "simple_kmod.ko",
        "simple_procfs_kmod.ko",
    ]
    assert text(machine, "/etc/modprobe.d/kae-simple-kmod-simple_procfs_kmod.conf") == (
        "options simple_procfs_kmod number=7\n"
    )
    assert not machine.host.path(homes.own("simple-kmod").changing).exists()
    assert not machine.host.path(homes.KAE.record).exists()


def contents(machine: Machine) -> dict[str, str]:
    """Return the digests of a host's files, by name."""
    return {name: digest for name, (_, digest) in machine.files("etc", "usr/lib/modules", "opt").items()}


def test_a_new_version_replaces_the_old_one_and_absent_removes_all(machine: Machine, tmp_path: Path) -> None:
    bare = contents(machine)
    settings.installed(machine, stacks.payload(tmp_path / "1", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)
    second = stacks.payload(tmp_path / "2", "modules", stacks.kmod_files("1.1"))

    settings.installed(machine, second, **stacks.KMOD | {"driver_version": "1.1"})

    assert settings.versions(machine) == {"1.1"}
    settings.installed(machine, second, **stacks.KMOD | {"driver_version": "1.1", "state": "Absent"})
    assert machine.loaded() == {}
    assert contents(machine) == bare


def test_a_driver_is_removed_without_its_images(machine: Machine, tmp_path: Path) -> None:
    bare = contents(machine)
    settings.installed(machine, stacks.payload(tmp_path / "1", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)

    settings.installed(machine, tmp_path / "none", **stacks.KMOD | {"payloads": [], "state": "Absent"})

    assert machine.loaded() == {}
    assert contents(machine) == bare


# The compiler takes each for one of modules: see tests/compiler/planning/test_image_matrix.py.
@pytest.mark.parametrize(
    "path", ["/opt/lib/modules", "/opt/lib", "/opt", f"/opt/lib/modules/{machines.KERNEL}", "/lib/modules", "/modules"]
)
def test_modules_are_found_by_each_path_of_their_payload(machine: Machine, tmp_path: Path, path: str) -> None:
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))
    top = image / "payload/modules"
    if "opt" not in path:  # The image has them elsewhere, as a driver container has.
        target = top / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        (top / "opt/lib/modules").rename(target)

    settings.installed(machine, image, **stacks.KMOD | {"payloads": [{"name": "modules", "paths": [path]}]})

    assert settings.versions(machine) == {"1.0"}


def test_a_payload_without_the_running_kernel_is_refused(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, stacks.payload(tmp_path / "1", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)
    other = settings.OTHER_KERNEL
    image = stacks.payload(tmp_path / "2", "modules", stacks.kmod_files("1.1", other), other)

    shown = settings.installer(machine, image, **stacks.KMOD | {"driver_version": "1.1"}).settle()

    assert shown.state == "Failed"
    assert shown.reason.startswith(
        f"Neither the image nor payload modules holds modules for the running kernel {machines.KERNEL}; they have:"
        f" {other}."
    )
    assert settings.versions(machine) == {"1.0"}


def test_modules_of_another_kernel_in_the_folder_of_this_one_disturb_nothing(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, stacks.payload(tmp_path / "1", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)
    image = stacks.payload(tmp_path / "2", "modules", stacks.kmod_files("1.1", settings.OTHER_KERNEL))
    machine.calls()

    shown = settings.installer(machine, image, **stacks.KMOD | {"driver_version": "1.1"}).settle()

    assert shown.state == "Failed"
    assert f"was built for kernel {settings.OTHER_KERNEL}; the node runs {machines.KERNEL}." in shown.reason
    assert settings.changes_made(machine) == []


def test_modules_of_a_payload_are_signed_where_the_kernel_asks_for_it(machine: Machine, tmp_path: Path) -> None:
    layouts.put(machine.root / "sys/module/module/parameters/sig_enforce", b"Y\n")
    unsigned = stacks.kmod_files("1.0")
    signed = {name: content + b"~Module signature appended~\n" for name, content in unsigned.items()}

    shown = settings.installer(machine, stacks.payload(tmp_path / "1", "modules", unsigned), **stacks.KMOD).settle()

    assert (shown.state, machine.loaded()) == ("Failed", {})
    assert shown.reason.startswith(
        "The running kernel refuses modules without a signature (module.sig_enforce is set), and there is none in"
        " simple_kmod.ko, simple_procfs_kmod.ko"
    )
    machine.host.write(homes.own("simple-kmod").retry, "")
    settings.installed(machine, stacks.payload(tmp_path / "2", "modules", signed), **stacks.KMOD)
    assert settings.versions(machine) == {"1.0"}


def test_a_module_that_the_kernel_refuses_is_rolled_back(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, stacks.payload(tmp_path / "1", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)
    image = stacks.payload(tmp_path / "2", "modules", stacks.kmod_files("1.1"))
    machine.fail("modprobe simple_procfs_kmod", "modprobe: ERROR: could not insert: Exec format error", times=1)

    shown = settings.installer(machine, image, **stacks.KMOD | {"driver_version": "1.1"}).settle()

    assert shown.state == "Failed"
    assert shown.reason.startswith(
        "Module simple_procfs_kmod cannot be loaded: it was built for another kernel. The host is back in its previous"
        " state."
    )
    assert settings.versions(machine) == {"1.0"}
    assert machine.parameters("simple_procfs_kmod") == {"number": 7}


@pytest.mark.parametrize(("suffix", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_compressed_modules_are_stored_plain(suffix: str, pack: "object", machine: Machine, tmp_path: Path) -> None:
    assert callable(pack)
    files = {f"{name}{suffix}": pack(content) for name, content in stacks.kmod_files("1.0").items()}

    settings.installed(machine, stacks.payload(tmp_path, "modules", files), **stacks.KMOD)

    assert settings.versions(machine) == {"1.0"}
    assert machine.host.path(f"{HOME}/simple_kmod.ko").read_bytes() == stacks.kmod_files("1.0")["simple-kmod.ko"]


def _zstd(content: bytes) -> bytes:
    return subprocess.run(["zstd", "-q", "-c"], input=content, capture_output=True, check=True).stdout


def test_the_host_s_zstd_unpacks_modules_and_without_it_they_are_refused(machine: Machine, tmp_path: Path) -> None:
    files = {f"{name}.zst": _zstd(content) for name, content in stacks.kmod_files("1.0").items()}
    image = stacks.payload(tmp_path, "modules", files)

    shown = settings.installer(machine, image, **stacks.KMOD).settle()

    assert shown.state == "Failed"
    assert "is compressed by zstd, and the host has no program zstd: install it, or put the module into" in shown.reason
    program = machine.root / "usr/bin/zstd"
    program.write_text('#!/bin/sh\nexec /usr/bin/zstd "$1" "$2" "$3" "$4" "$FAKE_ROOT$5" "$6" "$FAKE_ROOT$7"\n')
    program.chmod(0o755)
    machine.host.write(homes.own("simple-kmod").retry, "")
    assert settings.installed(machine, image, **stacks.KMOD).ready
    assert settings.versions(machine) == {"1.0"}


def test_a_damaged_file_disturbs_nothing(machine: Machine, tmp_path: Path) -> None:
    files = {f"{name}.xz": lzma.compress(content)[:-8] for name, content in stacks.kmod_files("1.0").items()}

    shown = settings.installer(machine, stacks.payload(tmp_path, "modules", files), **stacks.KMOD).settle()

    assert shown.state == "Failed"
    assert "simple-kmod.ko.xz' cannot be decompressed:" in shown.reason
    assert settings.changes_made(machine) == []


def test_parameters_are_numbers_texts_and_switches(machine: Machine, tmp_path: Path) -> None:
    keys = {"range": "number:0:0:9:1", "flag": "quick:N", "text": "mode:slow", "parm": "secret:not shown (int)"}
    files = {"simple-kmod.ko": stacks.module("simple_kmod", "1.0", **keys)}
    wanted: dict[str, dict[str, driver_config.Parameter]] = {
        "simple_kmod": {"number": 3, "quick": True, "mode": "fast and loud", "secret": 5}
    }
    changes = stacks.KMOD | {"modules": ("simple_kmod",), "module_parameters": wanted}

    settings.installed(machine, stacks.payload(tmp_path, "modules", files), **changes)

    shown = machine.root / "sys/module/simple_kmod/parameters"
    assert {path.name: path.read_text() for path in shown.iterdir()} == {
        "number": "3\n",
        "quick": "Y\n",
        "mode": "fast and loud\n",
    }
    assert text(machine, "/etc/modprobe.d/kae-simple-kmod-simple_kmod.conf") == (
        'options simple_kmod mode="fast and loud" number=3 quick=1 secret=5\n'
    )


def test_a_parameter_that_the_policy_has_no_more_is_taken_out_of_force(machine: Machine, tmp_path: Path) -> None:
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))
    settings.installed(machine, image, **stacks.KMOD)
    assert machine.parameters("simple_procfs_kmod") == {"number": 7}

    settings.installed(machine, image, **stacks.KMOD | {"module_parameters": {}})

    assert machine.parameters("simple_procfs_kmod") == {"number": 42}
    assert not machine.host.path("/etc/modprobe.d/kae-simple-kmod-simple_procfs_kmod.conf").exists()


def test_a_driver_of_an_earlier_release_is_not_loaded_again_for_what_its_record_lacks(
    machine: Machine, tmp_path: Path
) -> None:
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))
    settings.installed(machine, image, **stacks.KMOD)
    place = machine.host.path(homes.own("simple-kmod").record)
    known = json.loads(place.read_text())
    del known["installed"]["parameters"]
    place.write_text(json.dumps(known))
    machine.calls()

    settings.installed(machine, image, **stacks.KMOD)

    assert settings.changes_made(machine) == []
    assert json.loads(place.read_text())["installed"]["parameters"] == {
        "simple_kmod": {},
        "simple_procfs_kmod": {"number": 7},
    }


def test_a_parameter_that_no_module_knows_fails_the_change(machine: Machine, tmp_path: Path) -> None:
    changes = stacks.KMOD | {"module_parameters": {"simple_kmod": {"missing": True}}}

    shown = settings.installer(
        machine, stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0")), **changes
    ).settle()

    assert "Parameter missing of module simple_kmod is unknown to it, not True." in shown.reason
    assert machine.loaded() == {}


def test_after_a_boot_missing_modules_are_loaded_beside_the_others(machine: Machine, tmp_path: Path) -> None:
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))
    settings.installed(machine, image, **stacks.KMOD)
    machine.reboot()
    machine.load("simple_kmod")
    machine.calls()

    settings.installed(machine, image, **stacks.KMOD)

    assert settings.changes_made(machine) == ["modprobe simple_procfs_kmod"]


def test_the_kernel_s_own_module_makes_way_and_comes_back_with_absent(machine: Machine, tmp_path: Path) -> None:
    stacks.add_own_sfc(machine)
    own = machine.loaded()["sfc"]
    image = stacks.onload(tmp_path, "8.1")

    settings.installed(machine, image, **stacks.ONLOAD)

    loaded = machine.loaded()
    assert {name: version for name, (version, _) in loaded.items()} == dict.fromkeys(
        ("sfc", "sfc_resource", "sfc_char", "onload"), "8.1"
    )
    assert (machine.root / "dev/onload").is_char_device()
    settings.installed(machine, image, **stacks.ONLOAD | {"state": "Absent"})
    assert machine.loaded() == {"sfc": own}
    assert not (machine.root / "opt/onload").exists()
    assert list((machine.root / "opt").glob(".kae*")) == []


def test_the_kernel_s_own_module_comes_back_when_the_policy_leaves_it_alone(machine: Machine, tmp_path: Path) -> None:
    stacks.add_own_sfc(machine)
    own = machine.loaded()["sfc"]
    image = stacks.user(stacks.payload(tmp_path, "modules", stacks.apart("8.1")), "8.1")
    settings.installed(machine, image, **stacks.ONLOAD)

    settings.installed(machine, image, **stacks.ONLOAD | stacks.WITHOUT_SFC)

    assert machine.loaded()["sfc"] == own
    assert machine.loaded()["onload"][0] == "8.1"
    machine.calls()
    settings.installed(machine, image, **stacks.ONLOAD | stacks.WITHOUT_SFC | {"state": "Absent"})
    assert machine.loaded() == {"sfc": own}
    assert "rmmod sfc" not in machine.calls()


def test_the_kernel_s_own_module_comes_back_also_after_two_drivers(machine: Machine, tmp_path: Path) -> None:
    stacks.add_own_sfc(machine)
    own = machine.loaded()["sfc"]
    image = stacks.user(stacks.payload(tmp_path, "modules", stacks.apart("8.1")), "8.1")
    settings.installed(machine, image, **stacks.ONLOAD | stacks.WITHOUT_SFC)
    settings.installed(machine, image, **stacks.ONLOAD)
    assert machine.loaded()["sfc"] != own

    settings.installed(machine, image, **stacks.ONLOAD | {"state": "Absent"})

    assert machine.loaded() == {"sfc": own}


def test_a_failed_change_brings_the_kernel_s_own_module_back(machine: Machine, tmp_path: Path) -> None:
    stacks.add_own_sfc(machine)
    before = machine.loaded()
    machine.fail("modprobe onload", "modprobe: ERROR: could not insert 'onload': Unknown symbol in module", times=1)

    shown = settings.installer(machine, stacks.onload(tmp_path, "8.1"), **stacks.ONLOAD).settle()

    assert shown.state == "Failed"
    assert "The host is back in its previous state." in shown.reason
    assert machine.loaded() == before
    assert not (machine.root / "opt/onload").exists()
    assert list(machine.host.path(f"/lib/modules/{machines.KERNEL}/updates/kae-onload").glob("*")) == []


def test_a_driver_without_its_node_is_rolled_back(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "NODES_S", 0.1)
    settings.installed(machine, stacks.onload(tmp_path / "1", "8.1"), **stacks.ONLOAD)
    files = stacks.onload_files("8.2") | {
        "onload.ko": stacks.module("onload", "8.2", depends="sfc_char,sfc_resource,sfc")
    }
    image = stacks.user(stacks.payload(tmp_path / "2", "modules", files), "8.2")

    shown = settings.installer(machine, image, **stacks.ONLOAD | {"driver_version": "8.2"}).settle()

    assert "The modules are loaded, and '/dev/onload' is no character device" in shown.reason
    assert settings.versions(machine) == {"8.1"}
    assert text(machine, "/opt/onload/usr/lib64/libonload.so") == "library 8.1\n"


def test_the_files_of_a_payload_are_exchanged_whole(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, stacks.onload(tmp_path / "1", "8.1"), **stacks.ONLOAD | {"driver_version": "8.1"})
    link = machine.root / "opt/onload"
    first = link.readlink()

    settings.installed(machine, stacks.onload(tmp_path / "2", "8.2"), **stacks.ONLOAD | {"driver_version": "8.2"})

    assert first != link.readlink()
    assert str(first).startswith(".kae.onload~prebuilt-8.1")
    assert text(machine, "/opt/onload/usr/lib64/libonload.so.1") == "library 8.2\n"
    assert (link / "usr/bin/onload").stat().st_mode & 0o777 == 0o755


def test_a_folder_of_others_in_place_of_the_files_is_refused(machine: Machine, tmp_path: Path) -> None:
    layouts.put(machine.root / "opt/onload/usr/lib64/libonload.so", b"of others")

    shown = settings.installer(machine, stacks.onload(tmp_path, "8.1"), **stacks.ONLOAD).settle()

    assert shown.state == "Failed"
    assert shown.reason.startswith(
        "'/opt/onload' on the host holds what we did not put there (onload/usr/lib64/libonload.so): move it elsewhere"
    )
    assert machine.loaded() == {}


def test_files_that_no_payload_has_are_refused(machine: Machine, tmp_path: Path) -> None:
    image = stacks.payload(tmp_path, "modules", stacks.onload_files("8.1"))

    shown = settings.installer(machine, image, **stacks.ONLOAD).settle()

    assert shown.reason.startswith(
        "The folder for '/opt/onload' of the host is in no payload: it has to be in exactly one."
    )


@pytest.mark.parametrize("gone", ["opt/onload", "opt/onload/usr/lib64/libonload.so"])
def test_a_folder_that_a_container_runtime_made_goes(gone: str, machine: Machine, tmp_path: Path) -> None:
    image = stacks.onload(tmp_path, "8.1")
    settings.installed(machine, image, **stacks.ONLOAD)
    library = machine.root / "opt/onload/usr/lib64/libonload.so"
    (machine.root / gone).unlink()
    library.mkdir(parents=True)

    settings.installed(machine, image, **stacks.ONLOAD)

    assert library.read_text() == "library 8.1\n"
    assert not list((machine.root / "opt").glob("onload-old*"))


def test_a_link_that_leads_out_of_its_payload_is_not_followed(machine: Machine, tmp_path: Path) -> None:
    image = stacks.payload(tmp_path / "image", "modules", stacks.onload_files("8.1"))
    layouts.put(tmp_path / "elsewhere/secret", b"of the host\n")
    (image / "payload/user/opt").mkdir(parents=True)
    (image / "payload/user/opt/onload").symlink_to(tmp_path / "elsewhere")

    shown = settings.installer(machine, image, **stacks.ONLOAD).settle()

    assert shown.reason.startswith("The folder for '/opt/onload' of the host is in no payload")
    assert not (machine.root / "opt/onload").exists()


def test_pods_with_a_recipes_resource_are_evicted(crew: Crew, machine: Machine, users: Users, tmp_path: Path) -> None:
    settings.installed(machine, stacks.onload(tmp_path / "1", "8.1"), **stacks.ONLOAD)
    users.come("desk/fast", device="onload-3", resource=stacks.RESOURCES[1])
    users.come("shop/web", device="0000:79:00.0", resource="openfuyao.com/kae.hpre")

    shown = newer(crew, tmp_path).settle()

    assert shown.ready, shown.reason
    assert users.evicted == ["desk/fast"]


def test_pods_with_a_resource_of_a_config_that_never_was_at_work_are_evicted(
    crew: Crew, machine: Machine, users: Users, tmp_path: Path
) -> None:
    images = {
        version: stacks.payload(tmp_path / version, "modules", stacks.kmod_files(version)) for version in ("1.0", "1.1")
    }
    waits = driver_config.Drain(enabled=False, timeout_seconds=1)
    first = UNVERSIONED | {"resources": ("x.com/old",)}
    assert crew.job("1.0", images["1.0"], **first).settle().state == "Ready"
    users.come("desk/old", device="token-3", resource="x.com/old")
    second = UNVERSIONED | {"resources": ("x.com/new",), "drain": waits}
    blocked = crew.job("1.1", images["1.1"], **second).settle()
    assert blocked.state == "Blocked"
    # Its device plugin is there all the same.
    users.come("desk/new", device="token-4", resource="x.com/new")

    shown = crew.job("1.1", images["1.1"], **UNVERSIONED | {"resources": ("x.com/newest",)}).settle()

    assert (shown.state, sorted(users.evicted)) == ("Ready", ["desk/new", "desk/old"])


@pytest.mark.parametrize("tells", ["another name", "none"])
def test_pods_with_a_resource_are_evicted_before_a_driver_of_others_goes(
    tells: str, crew: Crew, machine: Machine, users: Users, tmp_path: Path
) -> None:
    for name in stacks.kmod_files("0.9"):
        machine.add_module(name.removesuffix(".ko").replace("-", "_"), stacks.kmod_files("0.9")[name])
    machine.load("simple_kmod", "simple_procfs_kmod")
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))
    assert crew.job("1.0", image, **UNVERSIONED | {"resources": ("x.com/old",)}).settle().state == "Foreign"
    users.come("desk/old", device="token-3", resource="x.com/old")

    now = {"resources": ("x.com/new",) if tells == "another name" else (), "install_policy": "Always"}
    shown = crew.job("1.0", image, **UNVERSIONED | now).settle()

    assert (shown.state, users.evicted) == ("Ready", ["desk/old"]), shown.reason


def test_pods_with_the_only_resource_that_a_policy_had_are_evicted(
    crew: Crew, machine: Machine, users: Users, tmp_path: Path
) -> None:
    images = [stacks.payload(tmp_path / version, "modules", stacks.kmod_files(version)) for version in ("1.0", "1.1")]
    assert crew.job("1.0", images[0], **UNVERSIONED | {"resources": ("x.com/old",)}).settle().state == "Ready"
    users.come("desk/old", device="token-3", resource="x.com/old")

    shown = crew.job("1.1", images[1], **UNVERSIONED | {"resources": ()}).settle()

    assert (shown.state, users.evicted) == ("Ready", ["desk/old"])


def test_pods_with_a_resource_that_the_policy_has_no_more_are_evicted(
    crew: Crew, machine: Machine, users: Users, tmp_path: Path
) -> None:
    first, renamed = UNVERSIONED | {"resources": ("x.com/old",)}, UNVERSIONED | {"resources": ("x.com/new",)}
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))
    crew.job("1.0", image, **first).settle()
    users.come("desk/fast", device="token-3", resource="x.com/old")
    crew.job("1.0", image, **renamed).settle()

    crew.job("1.0", image, **renamed | {"module_parameters": {}}).settle()

    assert users.evicted == ["desk/fast"]
    assert machine.parameters("simple_procfs_kmod") == {"number": 42}


def test_processes_with_an_open_node_block_changes(crew: Crew, machine: Machine, users: Users, tmp_path: Path) -> None:
    settings.installed(machine, stacks.onload(tmp_path / "1", "8.1"), **stacks.ONLOAD)
    process = machine.root / "proc/4711"
    layouts.put(process / "comm", b"trader\n")
    layouts.put(process / "cgroup", b"0::/user.slice\n")
    (process / "fd").mkdir()
    (process / "fd/3").symlink_to("/dev/full")

    shown = newer(crew, tmp_path).settle()

    assert shown.state == "Blocked"
    assert "process 4711 (trader)" in shown.reason
    assert settings.versions(machine) == {"8.1"}


def test_a_user_that_the_kernel_counts_blocks(crew: Crew, machine: Machine, users: Users, tmp_path: Path) -> None:
    settings.installed(machine, stacks.onload(tmp_path / "1", "8.1"), **stacks.ONLOAD)
    machine.pin("onload")

    shown = newer(crew, tmp_path).settle()

    assert shown.state == "Blocked"
    assert "the module onload is in use 1 times more than by modules" in shown.reason


def test_a_module_in_use_without_a_device_stays_without_a_lease(crew: Crew, machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, stacks.payload(tmp_path / "1", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)
    machine.pin("simple_kmod")  # As a mounted filesystem does.
    image = stacks.payload(tmp_path / "2", "modules", stacks.kmod_files("1.1"))
    job = crew.job(image=image, version="1.1", **_without(stacks.KMOD, "driver_version"))
    steps = [step.name for step in job.parts.report().steps]

    shown = job.settle()

    assert not {"take-lease", "drain-devices"}.intersection(steps)
    assert shown.reason == (
        "Module simple_kmod cannot be unloaded: it is in use (1 times), by a process with an open device or by the"
        " kernel itself. The host is back in its previous state."
    )
    assert (shown.state, shown.ready, settings.versions(machine)) == ("Failed", False, {"1.0"})
    assert machine.parameters("simple_procfs_kmod") == {"number": 7}
    machine.pin("simple_kmod", 0)
    machine.host.write(homes.own("simple-kmod").retry, "")
    assert (job.settle().state, settings.versions(machine)) == ("Ready", {"1.1"})


def test_a_module_of_others_above_one_without_a_device_blocks_before_anything(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, stacks.payload(tmp_path / "1", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)
    machine.add_module("tuner", stacks.module("tuner", "1.0", depends="simple_kmod"))
    machine.load("tuner")
    machine.calls()
    image = stacks.payload(tmp_path / "2", "modules", stacks.kmod_files("1.1"))

    shown = settings.installer(machine, image, **stacks.KMOD | {"driver_version": "1.1"}).settle()

    assert "Module tuner of others uses simple_kmod: unload it (rmmod tuner)." in shown.reason
    assert (shown.state, settings.changes_made(machine)) == ("Blocked", [])


def test_two_recipes_and_kae_share_a_host(machine: Machine, image: Path, tmp_path: Path) -> None:
    settings.installed(machine, image)
    first, second = stacks.again(machine), stacks.again(machine)
    settings.installed(first, stacks.payload(tmp_path / "k", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)
    settings.installed(second, stacks.onload(tmp_path / "o", "8.1"), **stacks.ONLOAD)
    above = modulefiles.driver("2.0.1", machines.KERNEL, "hisi_acc_vfio_pci")
    machine.add_module("hisi-acc-vfio-pci", *above.values())
    machine.load("hisi_acc_vfio_pci")
    every = set(machine.loaded())

    settings.installed(second, stacks.onload(tmp_path / "o", "8.1"), **stacks.ONLOAD | {"state": "Absent"})

    assert every - set(machine.loaded()) == {"sfc", "sfc_resource", "sfc_char", "onload"}
    assert record.read(first.host).installed
    assert not record.read(second.host).installed
    machine.calls()
    assert settings.installed(machine, image).reason == "The driver 2.0.1 is loaded and verified."
    assert settings.changes_made(machine) == []


def test_an_installer_waits_while_that_of_another_recipe_changes_the_host(machine: Machine, tmp_path: Path) -> None:
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))
    waiting = settings.installer(machine, image, **stacks.KMOD)
    with waiting.loop._turn() as mine:
        assert mine
        pause_s = settings.installer(stacks.again(machine), image, **stacks.KMOD).loop.cycle()

    assert pause_s > 0
    assert machine.loaded() == {}
    assert waiting.settle().ready


def test_a_driver_of_others_stays_unless_the_policy_says_always(machine: Machine, tmp_path: Path) -> None:
    for name, content in stacks.kmod_files("0.9").items():
        machine.add_module(name.removesuffix(".ko"), content)
    machine.load("simple_kmod", "simple_procfs_kmod")
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))

    kept = settings.installer(machine, image, **stacks.KMOD).settle()

    assert (kept.state, kept.reason) == (
        "Foreign",
        "Others have loaded simple_kmod, simple_procfs_kmod; the install policy is IfNotPresent, so they stay as they"
        " are.",
    )
    assert settings.installed(machine, image, **stacks.KMOD | {"install_policy": "Always"}).ready
    assert settings.versions(machine) == {"1.0"}


def newer(crew: Crew, folder: Path, **changes: str) -> Job:
    """An installer of Onload 8.2."""
    stated = _without(stacks.ONLOAD, "driver_version") | changes
    return crew.job(image=stacks.onload(folder / "2", "8.2"), version="8.2", **stated)


def _without(data: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in data.items() if key != name}


def test_a_module_that_the_policy_drops_is_unloaded(machine: Machine, tmp_path: Path) -> None:
    image = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))
    settings.installed(machine, image, **stacks.KMOD)

    changes = stacks.KMOD | {"modules": ("simple_kmod",), "module_parameters": {}, "driver_version": "1.0-b"}
    settings.installed(machine, image, **changes)

    assert set(machine.loaded()) == {"simple_kmod"}
    assert [path.name for path in machine.host.path(HOME).iterdir()] == ["simple_kmod.ko"]
    assert not machine.host.path("/etc/modprobe.d/kae-simple-kmod-simple_procfs_kmod.conf").exists()


def test_a_module_that_others_need_is_proved_too(machine: Machine, tmp_path: Path) -> None:
    image = stacks.onload(tmp_path, "8.1")
    settings.installed(machine, image, **stacks.ONLOAD)
    (machine.root / "sys/module/sfc_char/srcversion").write_text("of another build\n")

    current = host_state.read(machine.host, settings.config(**stacks.ONLOAD))

    found = verification.faults(settings.config(**stacks.ONLOAD), current, record.read(machine.host).installed)  # type: ignore[arg-type]
    assert [fault.text.partition(" (")[0] for fault in found] == ["Module sfc_char was loaded from elsewhere"]


STEPS = ("begin-change", "place-modules", "record-driver")
LATER = (
    *("store-driver", "block-autoload", "unload-modules", "place-libraries", "index-modules", "write-options"),
    *("load-modules", "prove-driver", "allow-autoload"),
)


@pytest.mark.parametrize("step", [*STEPS, *(pytest.param(step, marks=pytest.mark.long) for step in LATER)])
@pytest.mark.parametrize("wanted", ["Present", "Absent"])
def test_after_a_kill_the_next_installer_ends_the_change(
    step: str, wanted: str, crew: Crew, machine: Machine, tmp_path: Path
) -> None:
    stacks.add_own_sfc(machine)
    settings.installed(machine, stacks.onload(tmp_path / "1", "8.1"), **stacks.ONLOAD)
    with contextlib.suppress(pytest.fail.Exception):  # A removal has fewer steps.
        newer(crew, tmp_path, state=wanted).end_after(step)

    shown = newer(crew, tmp_path, state=wanted).settle()

    assert shown.ready, shown.reason
    assert settings.versions(machine) == ({"8.2"} if wanted == "Present" else {None})
    assert (machine.root / "opt/onload").exists() is (wanted == "Present")
    assert not machine.host.path(homes.own("onload").blocked).exists()
    assert not machine.host.path(homes.own("onload").changing).exists()


def test_a_driver_that_crashes_the_host_is_not_tried_again(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, stacks.payload(tmp_path / "1", "modules", stacks.kmod_files("1.0")), **stacks.KMOD)
    image = stacks.payload(tmp_path / "2", "modules", stacks.kmod_files("1.1"))
    machine.let_panic("1.1", "simple_kmod")
    newer = stacks.KMOD | {"driver_version": "1.1"}
    incidents.crash(machine, settings.installer(machine, image, **newer))

    shown = settings.installer(machine, image, **newer).settle()

    assert shown.state == "Failed"
    assert shown.reason.startswith("The host went down during the change to the driver 1.1. The host is back in its")
    assert machine.loaded()["simple_kmod"][0] == "1.0"


def test_a_module_that_is_left_to_the_kernel_is_not_taken_from_the_image(machine: Machine, tmp_path: Path) -> None:
    stacks.add_own_sfc(machine)
    own = machine.loaded()["sfc"]

    settings.installed(machine, stacks.onload(tmp_path, "8.1"), **stacks.ONLOAD | stacks.WITHOUT_SFC)

    assert machine.loaded()["sfc"] == own
    assert machine.loaded()["onload"][0] == "8.1"
