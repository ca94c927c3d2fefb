"""The libraries in /opt/kae, and what others put where the installer's files go."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from installer.host import record
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew
from tests.installer.machines import Machine

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]

MINE = "lib/libmine.so.1"


def at(machine: Machine, name: str = "") -> Path:
    return machine.host.path(f"{homes.KAE.home.files}/{name}".rstrip("/"))


def content(machine: Machine) -> set[str]:
    return {name.removeprefix("opt/") for name in machine.files("opt")}


def test_libraries_are_a_tree_to_which_a_link_leads_below_any_root(machine: Machine) -> None:
    installed = record.read(machine.host).installed

    assert installed is not None
    assert str(at(machine).readlink()) == f".kae-{installed.id}"
    assert {str(path.relative_to(at(machine))) for path in at(machine).rglob("*.so*")} == set(installed.libraries)


def test_a_container_keeps_the_libraries_that_it_began_with_over_an_upgrade(machine: Machine, crew: Crew) -> None:
    mounted = os.open(at(machine), os.O_PATH | os.O_DIRECTORY)  # As a bind mount, it stays with the folder.
    before = at(machine, "lib/libwd.so.2").read_text()

    crew.job().settle()

    library = os.open("lib/libwd.so.2", os.O_RDONLY, dir_fd=mounted)
    assert os.read(library, 100).decode() == before != at(machine, "lib/libwd.so.2").read_text()
    os.close(library)
    os.close(mounted)


def test_the_link_to_libraries_is_always_there(machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def watched(act: Callable[..., None]) -> Callable[..., None]:
        def acts(*arguments: Any, **options: Any) -> None:
            act(*arguments, **options)
            seen.append(at(machine).is_symlink())

        return acts

    for name in ("unlink", "remove", "rename", "replace", "rmdir", "symlink"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))

    crew.job().settle()

    assert (set(seen), incidents.works(machine, "2.0.2")) == ({True}, True)


def test_of_the_trees_those_of_the_drivers_in_the_store_stay(machine: Machine, crew: Crew) -> None:
    crew.job().settle()
    crew.job("2.0.3").settle()
    crew.job().settle()

    trees = {path.name.removeprefix(".kae-") for path in at(machine).parent.glob(".kae-*")}
    stored = {path.name for path in machine.host.path(homes.KAE.drivers).iterdir()}
    assert (trees, len(trees)) == (stored, 2)


def test_a_file_of_others_in_the_folder_disturbs_nobody(machine: Machine, crew: Crew) -> None:
    at(machine, MINE).write_text("mine\n")
    machine.calls()

    shown = crew.job().settle()

    assert (shown.state, settings.changes_made(machine)) == ("Failed", [])
    assert shown.reason == (
        f"'/opt/kae' on the host holds what we did not put there ({MINE}): move it elsewhere, or add it to the image."
    )
    assert incidents.works(machine)


def test_what_a_change_could_not_take_back_is_no_file_of_others(machine: Machine, crew: Crew, tmp_path: Path) -> None:
    crew.job().settle()
    tree, target = at(machine).resolve(), at(machine).readlink()
    shutil.copytree(tree, tmp_path / "disk", symlinks=True)
    crew.job(state="Absent").settle()
    shutil.copytree(tmp_path / "disk", tree, symlinks=True)  # The disk of /opt was away meanwhile.
    at(machine).symlink_to(target)

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True), shown.reason


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_a_file_of_others_is_named_and_nobody_is_disturbed(machine: Machine, crew: Crew, kind: str) -> None:
    at(machine).unlink()
    if kind == "link":
        at(machine).symlink_to("/data/kae")
    else:
        at(machine).write_text("theirs\n")

    shown = crew.job().settle()

    assert "holds what we did not put there (a link or a file in its place): move it elsewhere" in shown.reason
    assert settings.versions(machine) == {"2.0.1"}


def test_a_link_of_others_is_not_replaced_when_libraries_are_repaired(machine: Machine, crew: Crew) -> None:
    at(machine).unlink()
    at(machine).symlink_to("/data/kae")

    shown = crew.job("2.0.1").settle()

    assert (shown.state, str(at(machine).readlink())) == ("Failed", "/data/kae")


def test_an_image_without_libraries_leaves_those_of_others_alone(machine: Machine, tmp_path: Path, crew: Crew) -> None:
    bare = Machine(tmp_path / "bare")
    bare.add_image(tmp_path / "image", "2.0.1")
    (tmp_path / "image/opt/kae").rename(tmp_path / "taken-out")
    at(bare, "lib").mkdir(parents=True)
    at(bare, MINE).write_text("mine\n")

    settings.installed(bare, tmp_path / "image")
    settings.installed(bare, tmp_path / "image", state="Absent")

    assert content(bare) == {f"kae/{MINE}"}


def test_a_removal_takes_the_link_and_the_trees(machine: Machine, crew: Crew) -> None:
    crew.job().settle()

    crew.job(state="Absent").settle()

    assert content(machine) == set()
    assert not os.path.lexists(at(machine))


def test_a_removal_leaves_the_files_of_others(machine: Machine, crew: Crew) -> None:
    at(machine, MINE).write_text("mine\n")

    shown = crew.job(state="Absent").settle()

    assert (shown.ready, at(machine, MINE).read_text()) == (True, "mine\n")
    assert [path.name for path in at(machine).rglob("*") if path.is_file()] == ["libmine.so.1"]


def test_folders_and_links_of_others_beside_our_modules_stay_where_they_are(machine: Machine, crew: Crew) -> None:
    ours = machine.host.path(homes.KAE.modules(machine.kernel))
    (ours / "notes").mkdir()
    (ours / "link").symlink_to("notes")
    (ours / "README").write_text("theirs\n")

    crew.job().settle()
    shown = crew.job(state="Absent").settle()

    assert shown.ready, shown.reason
    assert sorted(path.name for path in ours.iterdir()) == ["README", "link", "notes"]


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_is_in_the_way_of_our_modules_is_named(machine: Machine, crew: Crew, kind: str) -> None:
    ours = machine.host.path(homes.KAE.modules(machine.kernel))
    if kind == "link":
        ours.rename(machine.root / "usr/kae")
        ours.symlink_to(os.path.relpath(machine.root / "usr/kae", ours.parent.resolve()))
    else:
        (ours / "hisi_zip.ko").unlink()
        (ours / "hisi_zip.ko").mkdir()
    machine.calls()

    shown = crew.job().settle()

    place = "updates/kae" if kind == "link" else "updates/kae/hisi_zip.ko"
    assert (shown.state, settings.changes_made(machine)) == ("Failed", [])
    assert shown.reason == (
        f"No module can be placed on the host: move the {kind} '/lib/modules/{machine.kernel}/{place}' elsewhere."
    )


def test_a_removal_indexes_every_kernel_that_had_our_modules(machine: Machine, newer: Path, crew: Crew) -> None:
    first = machine.kernel
    machine.add_kernel(settings.OTHER_KERNEL)
    machine.add_kernel("6.6.0-99.oe2403.aarch64")
    machine.reboot(settings.OTHER_KERNEL)
    machine.add_image(newer, "2.0.2")
    crew.job().settle()
    machine.calls()

    crew.job(state="Absent").settle()

    indexed = [call for call in machine.calls() if call.startswith("depmod")]
    assert indexed == [f"depmod -a {kernel}" for kernel in sorted((first, settings.OTHER_KERNEL))]
    machine.reboot(first)
    assert settings.versions(machine) == {None}


def test_a_host_with_read_only_modules_is_served_by_its_kernels_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path / "host")
    machine.add_image(tmp_path / "image", "2.0.1", prebuilt=False)
    machine.fail("depmod", "depmod: ERROR: could not write modules.dep: Read-only file system")
    read_only(machine, monkeypatch)
    wish = {"source": settings.IN_TREE, "module_parameters": settings.parameters(uacce_mode=1)}

    settings.installed(machine, tmp_path / "image", **wish)
    settings.installed(machine, tmp_path / "image", **wish, state="Absent")

    assert machine.loaded() == {}


def read_only(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file system of /lib/modules say that it is read-only."""
    statvfs = os.statvfs

    def answer(path: Path) -> os.statvfs_result:
        said = statvfs(path)
        if machine.root / "lib/modules" not in (path, *Path(path).parents):
            return said
        return os.statvfs_result([*said[:8], said.f_flag | os.ST_RDONLY, said.f_namemax])

    monkeypatch.setattr(os, "statvfs", answer)


def test_a_folder_with_files_in_place_of_the_link_is_named_and_nobody_is_disturbed(
    machine: Machine, crew: Crew
) -> None:
    tree = at(machine).resolve()
    at(machine).unlink()
    tree.rename(at(machine))
    machine.calls()

    shown = crew.job().settle()

    assert (shown.state, settings.changes_made(machine)) == ("Failed", [])
    assert shown.reason.startswith("'/opt/kae' on the host holds what we did not put there (lib/")


def test_an_empty_folder_in_place_of_the_link_makes_way(machine: Machine, crew: Crew) -> None:
    # A container runtime makes one of a host path that it is to mount and that is not there.
    at(machine).unlink()
    at(machine, "lib").mkdir(parents=True)

    assert (crew.job().settle().state, incidents.works(machine, "2.0.2")) == ("Ready", True)
