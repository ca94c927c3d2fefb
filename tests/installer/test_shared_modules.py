"""Modules that the drivers of two recipes bring: one has them, the other one leaves them to it."""

from pathlib import Path
from typing import Any

import pytest

from installer.host import record
from installer.report import driver_state
from tests.installer import homes, machines, settings, stacks
from tests.installer.machines import Machine


class Node:
    """A host with installers of several recipes."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self._folder = machine, folder

    def bring(self, name: str, shared: str = "1.0", **changes: Any) -> driver_state.DriverState:
        """Let the installer of a recipe come to rest, whose payload has this version of the shared module."""
        image = stacks.payload(self._folder / f"{name}-{shared}", "modules", stacks.sharing(name, shared))
        made = settings.installer(stacks.again(self.machine), image, **stacks.recipe(name, **changes))
        shown = made.settle()
        made.parts.close()
        return shown

    def loaded(self) -> set[str]:
        """The loaded modules, without those of the kernel itself, which a boot loads."""
        return {name for name, (version, _) in self.machine.loaded().items() if version}

    def modules(self, name: str) -> list[str]:
        """The names of the module files that a recipe has placed."""
        folder = self.machine.host.path(homes.own(name).modules(machines.KERNEL))
        return sorted(path.name for path in folder.glob("*"))


@pytest.fixture
def node(machine: Machine, tmp_path: Path) -> Node:
    return Node(machine, tmp_path)


def test_a_module_that_two_recipes_bring_is_left_to_the_first(node: Node) -> None:
    assert node.bring("left").state == "Ready"

    shown = node.bring("right")

    assert (shown.state, shown.reason) == ("Ready", "The driver 1.0 is loaded and verified.")
    assert node.loaded() == {"shared", "left", "right"}
    assert (node.modules("left"), node.modules("right")) == (["left.ko", "shared.ko"], ["right.ko"])
    node.machine.calls()
    assert (node.bring("left").state, node.bring("right").state) == ("Ready", "Ready")
    assert settings.changes_made(node.machine) == []


def test_after_a_boot_both_drivers_are_loaded_again(node: Node) -> None:
    node.bring("left")
    node.bring("right")
    node.machine.reboot()

    assert (node.bring("right").state, node.bring("left").state) == ("Ready", "Ready")
    assert node.loaded() == {"shared", "left", "right"}


def test_a_removal_leaves_the_module_to_the_recipe_that_has_it(node: Node) -> None:
    node.bring("left")
    node.bring("right")

    assert node.bring("right", state="Absent").state == "Ready"

    assert node.loaded() == {"shared", "left"}
    assert node.bring("left").state == "Ready"


def test_a_driver_whose_module_another_recipe_uses_stays_and_names_that_recipe(node: Node) -> None:
    node.bring("left")
    node.bring("right")
    node.machine.calls()

    for changes in ({"state": "Absent"}, {"driver_version": "1.1", "shared": "1.1"}):
        shown = node.bring("left", **changes)

        assert shown.state == "Blocked"
        assert (
            "Module right of recipe 'right' uses shared: have the driver of that recipe removed first (driver.state:"
            " Absent), and installed again afterwards."
        ) in shown.reason
    assert settings.changes_made(node.machine) == []
    node.bring("right", state="Absent")
    assert node.bring("left", state="Absent").state == "Ready"
    assert node.machine.loaded() == {}


def test_another_version_of_the_module_blocks_a_driver_before_anything_is_touched(node: Node) -> None:
    node.bring("left")
    before = node.machine.loaded()
    node.machine.calls()

    shown = node.bring("right", "2.0")

    assert shown.state == "Blocked"
    assert shown.reason == (
        "Module shared of the driver of recipe 'left' on this host is 1.0, and this driver brings 2.0: one module"
        " serves both, so have both recipes bring the same."
    )
    assert (settings.changes_made(node.machine), node.machine.loaded()) == ([], before)
    node.bring("left", "2.0", driver_version="2.0")
    assert node.bring("right", "2.0").state == "Ready"


def test_a_driver_brings_the_module_itself_once_the_other_recipe_has_gone(node: Node) -> None:
    node.bring("left")
    node.bring("right")
    node.machine.reboot()
    # Nothing uses it yet.
    node.bring("left", state="Absent")

    assert node.bring("right").state == "Ready"
    assert node.loaded() == {"shared", "right"}
    assert node.modules("right") == ["right.ko", "shared.ko"]
    known = record.read(stacks.again(node.machine).host, paths_of("right")).installed
    assert known is not None
    assert known.left == ()


def paths_of(name: str) -> str:
    return homes.own(name).record


@pytest.mark.parametrize("parameters", [{}, {"shared": {"number": 7}}])
def test_a_module_that_the_policy_names_is_left_too_unless_it_wants_parameters(
    parameters: dict[str, Any], node: Node
) -> None:
    node.bring("left")

    shown = node.bring("right", modules=("shared", "right"), module_parameters=parameters)

    assert shown.state == ("Blocked" if parameters else "Ready"), shown.reason
    if parameters:
        assert "Module shared is of the driver of recipe 'left' on this host" in shown.reason
    assert node.modules("right") == ([] if parameters else ["right.ko"])
    assert node.bring("left").state == "Ready"


def test_a_failure_of_the_second_driver_leaves_the_first_as_it_was(node: Node) -> None:
    node.bring("left")
    before = node.machine.loaded()
    node.machine.fail("modprobe right", "modprobe: ERROR: could not insert 'right': Exec format error", times=1)

    shown = node.bring("right")

    assert (shown.state, shown.reason.endswith("The host is back in its previous state.")) == ("Failed", True)
    assert node.machine.loaded() == before
    assert node.bring("left").state == "Ready"
