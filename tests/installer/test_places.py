"""A host whose folders are links: absolute ones mean what they mean on the host, not in the installer's container."""

from pathlib import Path

import pytest

from installer.change import places
from installer.host import chroot, host_state
from runtime import errors
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew
from tests.installer.machines import Machine


def move(machine: Machine, folder: str) -> None:
    """Move a folder of the host elsewhere, and leave an absolute link in its place."""
    place, elsewhere = machine.root / folder.lstrip("/"), f"/srv{folder}"
    (machine.root / elsewhere.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(machine.root / elsewhere.lstrip("/"))
    else:
        (machine.root / elsewhere.lstrip("/")).mkdir()
    place.symlink_to(elsewhere)


@pytest.mark.parametrize("folder", ["/opt", "/var/lib/kae", "/etc/modprobe.d", "/etc/udev/rules.d"])
def test_a_folder_that_is_an_absolute_link_is_a_folder(
    folder: str, installed: Machine, machine: Machine, crew: Crew
) -> None:
    del installed
    move(machine, folder)

    known = crew.job("2.0.1").settle()
    upgraded = crew.job().settle()
    works = incidents.works(machine, "2.0.2")
    removed = crew.job(state="Absent").settle()

    assert (known.state, upgraded.state, works, removed.state) == ("Ready", "Ready", True, "Ready"), upgraded.reason
    assert not machine.loaded()
    assert not Path(f"/srv{folder}").exists()


def test_a_driver_comes_to_a_host_all_of_whose_folders_are_links(machine: Machine, crew: Crew) -> None:
    for folder in ("/opt", "/var/lib/kae", "/etc/modprobe.d"):
        move(machine, folder)

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True), shown.reason


def test_a_link_in_place_of_the_folder_of_a_recipe_empties_no_other(machine: Machine) -> None:
    host = machine.host
    host.own = homes.own("onload")
    victim = machine.root / "dev/dev/precious"
    victim.parent.mkdir(parents=True)
    victim.touch()
    recipes = machine.root / "run/kae/recipes"
    recipes.mkdir(parents=True)
    (recipes / "onload").symlink_to("/dev")

    for act in (host.empty, host.remove, host.remove_folder):
        with pytest.raises(Exception, match=r"^'/run/kae/recipes/onload/dev.*symbolic links\.$"):
            act(host.own.links if act is not host.remove else f"{host.own.links}/precious")
    with pytest.raises(Exception, match="symbolic links"):
        host.write(host.own.changing, "{}")

    assert victim.exists()
    assert not (machine.root / "dev/driver-changing").exists()


def test_a_device_plugin_writes_nothing_that_the_installer_trusts(machine: Machine) -> None:
    own = homes.own("onload")

    trusted = (own.lock, own.retry, own.record, own.drivers, own.build)

    assert not [path for path in trusted if Path(path).is_relative_to("/run/kae")]


def test_a_folder_that_is_a_link_to_what_is_not_there_begins_no_change(tmp_path: Path) -> None:
    host = chroot.Host(tmp_path, homes.KAE)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/modprobe.d").symlink_to("/data/modprobe.d")

    with pytest.raises(errors.Failure, match="on the host is a link to what is not there"):
        places.check(host, [places.Place("/etc/modprobe.d")], grows=False)

    (tmp_path / "data/modprobe.d").mkdir(parents=True)
    places.check(host, [places.Place("/etc/modprobe.d")], grows=False)


@pytest.mark.parametrize("place", ["var/lib/kae", "lib/modules", "opt"])
def test_a_folder_that_is_a_link_to_what_is_not_there_is_no_empty_one(machine: Machine, place: str) -> None:
    settings.installed(machine, machine.image("2.0.1"))
    # As of a disk that is not mounted: the driver in it is ours, and neither another's nor gone.
    folder = machine.root / place
    folder.rename(folder.with_name("aside"))
    folder.symlink_to(f"/data/{folder.name}")

    with pytest.raises(errors.Failure, match=f"'/{place}' on the host is a link to what is not there: mount that"):
        host_state.read(machine.host, settings.config())
