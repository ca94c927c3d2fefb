"""The source packages, from a real repository to a host's real rpm, and the whole installer with it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from installer import change_steps, paths, sources, store
from installer.host import chroot, kmod, record, rpm
from installer.sources import packages
from runtime import driver_config, errors
from tests.host import repositories, rpms
from tests.host.repositories import BOTH, FIRST, ODD, UNSIGNED, file
from tests.installer import layouts, machines, settings

NEW = "/var/lib/kae/drivers/.new"
MIRROR = "mirror"
IN_IMAGE = (f"file://{paths.PACKAGES}",)
NAMES = ("kae-driver-${DRIVER_VERSION}-1", "kae-openssl-${DRIVER_VERSION}-1")


def from_packages(*names: str, asked: tuple[str, ...] = (BOTH,), **changes: Any) -> driver_config.Source:
    return driver_config.Source(packages=driver_config.Packages(names=names or NAMES, repositories=asked, **changes))


def source(
    host: chroot.Host, *names: str, version: str = "2.0.1", image: Path = Path("/nowhere"), **changes: Any
) -> packages.Packages:
    wanted = settings.config(source=from_packages(*names, **changes), driver_version=version)
    assert wanted.source.packages is not None
    context = sources.Context(host=host, image=image, settings=wanted, kernel=machines.KERNEL)
    return packages.Packages(context, wanted.source.packages)


def stage(host: chroot.Host, wanted: packages.Packages) -> list[str]:
    for step in wanted.steps(NEW):
        step.act()
    return sorted(path.name.removesuffix(".noarch.rpm") for path in host.path(f"{NEW}/packages").iterdir())


def refusal(host: chroot.Host, wanted: packages.Packages) -> str:
    with pytest.raises(errors.Failure) as caught:
        stage(host, wanted)
    return str(caught.value)


def has(host: chroot.Host) -> dict[str, str]:
    full_names = rpm.installed(host, ("kae-driver", "kae-openssl", "kae-zip"))
    return {name: full.split("-")[2] for name, full in full_names.items()}


def reasons(steps: tuple[change_steps.Step, ...]) -> list[str]:
    return [step.reason for step in steps]


def test_packages_are_staged_under_the_version_of_the_driver(host: chroot.Host) -> None:
    assert stage(host, source(host, version="2.0.2")) == ["kae-driver-2.0.2-1", "kae-openssl-2.0.2-1"]
    assert has(host) == {}


def test_packages_come_out_of_the_image_and_leave_no_copy_on_the_host(host: chroot.Host, tmp_path: Path) -> None:
    shutil.copytree(host.path("/srv/both"), tmp_path / "opt/packages")
    wanted = source(host, image=tmp_path, asked=IN_IMAGE)

    staged = stage(host, wanted)
    there = host.path(paths.PACKAGES).exists()
    context = sources.Context(host=host, image=tmp_path, settings=settings.config(), kernel=machines.KERNEL)
    store.Store(context, wanted).prune(())

    assert staged == ["kae-driver-2.0.1-1", "kae-openssl-2.0.1-1"]
    assert there
    assert not host.path(paths.PACKAGES).exists()


def test_an_image_without_packages_is_told(host: chroot.Host, tmp_path: Path) -> None:
    assert refusal(host, source(host, image=tmp_path, asked=IN_IMAGE)) == (
        "The image has no repository at /opt/packages, for which 'file:///var/lib/kae/packages' stands: build one that"
        " has, or name another repository."
    )


def test_other_packages_in_the_image_are_another_driver_and_another_index_is_not(
    host: chroot.Host, tmp_path: Path
) -> None:
    folder = tmp_path / "opt/packages"
    shutil.copytree(host.path("/srv/both"), folder)
    wanted = source(host, image=tmp_path, asked=IN_IMAGE)
    before = wanted.fingerprint()

    (folder / "repodata/repomd.xml").write_text("another time\n")
    indexed = wanted.fingerprint()
    next(folder.glob("*.rpm")).write_text("another content\n")

    assert indexed == before
    assert wanted.fingerprint() != before
    assert source(host).fingerprint() == "kae-driver-2.0.1-1\nkae-openssl-2.0.1-1"


@pytest.mark.parametrize("password", ["correct horse", "p%40x'y\"z #;=%%\\", "-n"])
def test_a_repository_that_asks_for_a_login_gets_that_of_the_secret_alone(
    password: str, machine: machines.Machine, tmp_path: Path
) -> None:
    for key, value in (("username", "mirror-reader"), ("password", f"{password}\n")):
        layouts.put(tmp_path / "run/credentials" / key, value.encode())
    commands: list[str] = []
    with repositories.mirror(machine.root / "srv/both", f"mirror-reader:{password}") as url:
        asked = from_packages(asked=(url,), credentials_secret=MIRROR)
        job = settings.installer(machine, tmp_path, source=asked)
        run = machine.host.run

        def noted(*command: str, **options: Any) -> str:
            commands.append(" ".join(command))
            if command[0] == "dnf":
                (file,) = machine.host.path("/var/lib/kae/drivers").rglob("*.repo")
                assert (file.stat().st_mode & 0o777, password in file.read_text()) == (0o600, True)
            return run(*command, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(machine.host, "run", noted)
            assert job.settle().state == "Ready", job.shown.reason
    assert any(command.startswith("dnf ") for command in commands)
    assert not any(password in command for command in commands if len(password) > 2)
    kept = [path for top in ("etc", "run", "tmp", "var") for path in (machine.root / top).rglob("*") if path.is_file()]
    assert not [path for path in kept if len(password) > 2 and password.encode() in path.read_bytes()]


def test_a_refused_login_is_told_without_the_password(machine: machines.Machine, tmp_path: Path) -> None:
    for key, value in (("username", "mirror-reader"), ("password", "opensesame")):
        layouts.put(tmp_path / "run/credentials" / key, value.encode())

    with repositories.mirror(machine.root / "srv/both", "mirror-reader:another") as url:
        asked = from_packages(asked=(url.replace("127.0.0.1", "localhost") + "/opensesame",), credentials_secret=MIRROR)
        shown = settings.installer(machine, tmp_path, source=asked).settle()

    assert (shown.state, "opensesame" in shown.reason) == ("Failed", False)
    assert "401" in shown.reason or "***" in shown.reason


@pytest.mark.parametrize("value", [None, b"", b"two\nlines", b"a$b"], ids=["missing", "empty", "lines", "variable"])
def test_a_secret_without_a_usable_password_is_named(
    value: bytes | None, machine: machines.Machine, tmp_path: Path
) -> None:
    layouts.put(tmp_path / "run/credentials/username", b"mirror-reader")
    if value is not None:
        layouts.put(tmp_path / "run/credentials/password", value)

    shown = settings.installer(machine, tmp_path, source=from_packages(credentials_secret=MIRROR)).settle()

    assert shown.reason == (
        "The Secret 'mirror' has no key 'password' with one line of ASCII without '$', which dnf takes for a variable:"
        " correct it, as the repositories of the driver's source are read with it."
    )


def test_another_version_is_another_driver(host: chroot.Host) -> None:
    first, second = source(host, version="2.0.1"), source(host, version="2.0.2")

    assert first.fingerprint() != second.fingerprint()
    assert first.fingerprint() == source(host, version="2.0.1", asked=()).fingerprint()


def test_its_steps_name_packages_and_repositories(host: chroot.Host) -> None:
    download, inspect = reasons(source(host, asked=(FIRST, ODD)).steps(NEW))

    assert download == (
        "Downloads kae-driver-2.0.1-1, kae-openssl-2.0.1-1 and dependencies with the host's dnf from"
        " 'file:///srv/first' and 'file:///srv/odd', and checks their signatures."
    )
    assert inspect == f"Checks that they contain modules for {machines.KERNEL}, and replace no other package."


def test_its_steps_say_where_nobody_checks_signatures(host: chroot.Host) -> None:
    (download, _) = reasons(source(host, "kae-driver", asked=(), gpg_check=False).steps(NEW))

    assert download == (
        "Downloads kae-driver and dependencies with the host's dnf from the node's own repositories, and does not"
        " check their signatures."
    )


def test_packages_for_another_kernel_are_refused(host: chroot.Host) -> None:
    assert refusal(host, source(host, "kae-driver-3.1-1", asked=(ODD,))) == (
        f"The package kae-driver-3.1-1.noarch holds modules for kernel {rpms.OTHER_KERNEL}; the node runs"
        f" {machines.KERNEL}."
    )


def test_packages_without_modules_are_refused(host: chroot.Host) -> None:
    rpm.install(host, (repositories.file("kae-driver-2.0.1-1"),))

    assert refusal(host, source(host, "kae-zip-2.0.1-1")) == (
        f"No module uacce, hisi_qm, hisi_hpre, hisi_sec2, hisi_zip for kernel {machines.KERNEL} is in"
        " kae-zip-2.0.1-1.noarch: name the package that holds it in source.packages.names, too."
    )


def test_unsigned_packages_are_refused_unless_the_policy_takes_them(host: chroot.Host) -> None:
    assert "has no valid signature of a key that the host trusts" in refusal(
        host, source(host, "kae-driver", asked=(UNSIGNED,))
    )
    host.remove_folder(NEW)
    assert stage(host, source(host, "kae-driver", asked=(UNSIGNED,), gpg_check=False)) == ["kae-driver-2.0.1-1"]


def test_a_dependency_that_replaces_a_package_of_the_host_is_refused(host: chroot.Host) -> None:
    assert refusal(host, source(host, "kae-driver-3.7-1", asked=(ODD,))) == (
        "The dependency libnuma-2.0-1.noarch would replace libnuma-1.0-1.noarch of the host:"
        " update the node first, or name it in source.packages.names."
    )


@pytest.mark.parametrize("name", ["libnuma", "libnuma-2.0", "libnuma-2.0-1", "libnuma-2.0-1.noarch", "libnuma.noarch"])
def test_what_is_named_may_replace_a_package_of_the_host(host: chroot.Host, name: str) -> None:
    assert stage(host, source(host, "kae-driver-3.7-1", name, asked=(ODD,))) == ["kae-driver-3.7-1", "libnuma-2.0-1"]


def test_what_we_brought_may_be_replaced(host: chroot.Host) -> None:
    ours = settings.driver(packages=("libnuma-1.0-1.noarch",))
    record.write(host, record.Record(installed=ours))

    assert stage(host, source(host, "kae-driver-3.7-1", asked=(ODD,))) == ["kae-driver-3.7-1", "libnuma-2.0-1"]


def test_the_installer_brings_and_upgrades_and_downgrades_and_removes_a_driver(
    machine: machines.Machine, tmp_path: Path
) -> None:
    for version in ("2.0.1", "2.0.2", "2.0.1"):
        settings.installed(machine, tmp_path, source=from_packages(), driver_version=version)

        assert has(machine.host) == {"kae-driver": version, "kae-openssl": version}
        assert {known for known, _ in machine.loaded().values()} == {version}
        assert set(machine.nodes().values()) == {0o666}

    settings.installed(machine, tmp_path, source=from_packages(), state="Absent")
    assert has(machine.host) == {}
    assert machine.loaded() == {}


def test_a_driver_of_the_installer_asks_for_nothing_more(machine: machines.Machine, tmp_path: Path) -> None:
    settings.installed(machine, tmp_path, source=from_packages())
    machine.host.remove_folder("/srv/both")
    before = machine.files("etc", "lib", "opt", "usr/local", "var/lib")
    machine.calls()

    settings.installed(machine, tmp_path, source=from_packages())

    assert machine.files("etc", "lib", "opt", "usr/local", "var/lib") == before


def test_a_packaged_module_that_somebody_exchanged_is_installed_anew(machine: machines.Machine, tmp_path: Path) -> None:
    settings.installed(machine, tmp_path, source=from_packages())
    installed = record.read(machine.host).installed
    assert installed is not None
    files = {f"{package}.rpm" for package in installed.packages}
    assert set(installed.digests) == {*settings.config().names, *files}
    made = settings.installer(machine, tmp_path, source=from_packages())
    path = kmod.chosen(machine.host, machine.kernel, ("hisi_zip",))["hisi_zip"].path
    place = machine.host.path(path)
    good = place.read_bytes()
    place.write_bytes(good + b"\0comment=the same version and srcversion\0")

    reasons = made.parts.report().decided.reasons
    shown = made.settle()

    assert reasons == (f"'{path}' is not as it was installed.",)
    assert (shown.state, place.read_bytes() == good) == ("Ready", True)


@pytest.mark.parametrize("names", [NAMES, ("kae-driver",)])
def test_copies_of_modules_obstruct_packages_unless_their_package_is_replaced(
    names: tuple[str, ...], machine: machines.Machine, tmp_path: Path
) -> None:
    rpm.install(machine.host, (file("kae-driver-2.0.1-1"),))
    machine.unload()
    made = settings.installer(machine, tmp_path, source=from_packages(*names), driver_version="2.0.2")

    assert made.parts.report().decided.impossible == ()
    machine.add_driver("1.9.9", "updates/site")
    (said,) = made.parts.report().decided.impossible

    assert "updates/site' instead of the new driver" in said


def test_a_driver_that_does_not_load_goes_and_the_old_one_is_back(machine: machines.Machine, tmp_path: Path) -> None:
    settings.installed(machine, tmp_path, source=from_packages())
    wanted = settings.installer(machine, tmp_path, source=from_packages(), driver_version="2.0.2")
    machine.fail("modprobe hisi_zip", "modprobe: ERROR: could not insert 'hisi_zip': No such device", times=2)

    shown = wanted.settle()

    assert not shown.ready
    assert "Module hisi_zip cannot be loaded" in shown.reason
    assert has(machine.host) == {"kae-driver": "2.0.1", "kae-openssl": "2.0.1"}
    assert {known for known, _ in machine.loaded().values()} == {"2.0.1"}


def test_what_an_older_driver_brought_stays_where_a_new_one_needs_it(machine: machines.Machine, tmp_path: Path) -> None:
    first = from_packages("kae-driver-3.8-1", asked=(ODD,))
    second = from_packages("kae-driver-3.8-1", "kae-zip-3.1-1", asked=(ODD,))
    settings.installed(machine, tmp_path, source=first, driver_version="3.8")

    settings.installed(machine, tmp_path, source=second, driver_version="3.8")

    names = ("kae-driver", "kae-zip", "libuadk")
    assert set(rpm.installed(machine.host, names)) == set(names)


def test_a_driver_from_packages_gives_way_to_another_source(machine: machines.Machine, tmp_path: Path) -> None:
    settings.installed(machine, tmp_path, source=from_packages())
    machine.add_image(tmp_path / "image", "2.0.3")

    settings.installed(machine, tmp_path / "image", driver_version="2.0.3")

    assert has(machine.host) == {}
    assert {known for known, _ in machine.loaded().values()} == {"2.0.3"}
    assert machine.parameters("hisi_zip")["uacce_mode"] == 2
