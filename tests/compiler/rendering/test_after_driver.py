"""Programs that come after the driver: the container that waits, and the rights of installers to take them away."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compiler.rendering import privileges
from installer import paths
from runtime import shapes
from tests import builders

IMAGES = {**builders.IMAGES, "modules": {"repository": "registry.test", "image": "modules", "version": "1.0"}}
DRIVER = {
    "image": "installer",
    "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
    "modules": [{"name": "net"}, {"name": "net_char"}, {"name": "net_debug", "optional": True}],
}
AFTER = {"after": "driver"}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"]}
GUARD = {
    f"guard/{kind}-net-driver-programs.yaml"
    for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
}
DAEMON_SET = "net/daemonset-net-driver-desk.yaml"


def compiled(program: Mapping[str, Any], **policy: Any) -> dict[str, Any]:
    """The objects of a recipe with a driver and this program."""
    pod = {"containers": [{"name": "control", "image": "modules"}]}
    recipe = builders.recipe(
        "net",
        match={"all": {}},
        images=IMAGES,
        driver=DRIVER,
        parameters={"properties": {"control": {"type": "boolean", "default": True}}},
        programs=[{"name": "control", "per": "pool", "when": "${values.control}", "pod": pod, **program}],
    )
    return builders.objects([builders.device_policy("desk", recipe, **policy)], (), builders.cluster())


def config(objects: Mapping[str, Any]) -> str:
    """The config of the installer."""
    annotations = objects[DAEMON_SET]["spec"]["template"]["metadata"]["annotations"]
    return str(annotations["device.openfuyao.com/config"])


def selector(objects: Mapping[str, Any]) -> str:
    """The pods that the installer takes away, by its config."""
    return str(json.loads(config(objects)).get("programs", ""))


def deleting(objects: Mapping[str, Any]) -> set[str]:
    """The roles that allow the deletion of pods."""
    return {path for path, data in objects.items() if PODS in (data.get("rules") or ())}


def test_installers_may_delete_pods_of_programs_and_a_guard_confines_them() -> None:
    objects = compiled(AFTER)

    labels = objects["net/daemonset-net-control-desk.yaml"]["spec"]["template"]["metadata"]["labels"]
    key, _, value = selector(objects).partition("=")
    assert labels[key] == value == "net-driver"
    assert deleting(objects) == {"net/role-net-driver.yaml", "net/role-net-driver-desk.yaml"}
    assert objects.keys() >= GUARD
    policy = objects["guard/validatingadmissionpolicy-net-driver-programs.yaml"]["spec"]
    binding = objects["guard/validatingadmissionpolicybinding-net-driver-programs.yaml"]["spec"]
    assert policy["matchConstraints"]["resourceRules"] == [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"], "scope": "*"}
    ]
    assert binding == {
        "policyName": "net-driver-programs",
        "validationActions": ["Deny"],
        "matchResources": {"matchPolicy": "Equivalent"},
    }
    said = " ".join(validation["expression"] for validation in policy["validations"])
    assert "authentication.kubernetes.io/node-name" in said
    assert f"labels[?'{key}'].orValue('') == '{value}'" in said


@pytest.mark.parametrize(
    ("program", "policy"),
    [
        ({}, {}),
        (AFTER, {"values": {"control": False}}),
        (AFTER, {"programs": {"control": {"enabled": False}}}),
    ],
    ids=["not after it", "not there", "disabled"],
)
def test_without_such_a_program_there_is_no_such_right(program: dict[str, Any], policy: dict[str, Any]) -> None:
    objects = compiled(program, **policy)

    assert (selector(objects), deleting(objects), GUARD & objects.keys()) == ("", set(), set())


def test_a_removed_driver_takes_the_pods_that_came_after_it_away_although_their_program_goes() -> None:
    objects = compiled(AFTER, driver={"state": "Absent"})

    assert selector(objects) == "device.openfuyao.com/after=net-driver"
    assert deleting(objects) != set()
    assert objects.keys() >= GUARD


def test_one_wave_with_the_program_gives_the_installers_of_all_pools_the_right() -> None:
    waves = [{"name": "canary", "percent": 5, "values": {"control": True}}]

    objects = compiled(AFTER, values={"control": False}, rollout={"waves": waves})

    # A node of another wave may still have the pod of an earlier one.
    drivers = [path for path in objects if path.startswith("net/daemonset-net-driver-desk--")]
    assert len(drivers) == 2
    for path in drivers:
        assert selector({DAEMON_SET: objects[path]}) == "device.openfuyao.com/after=net-driver"


def test_the_guard_and_the_rights_outlive_a_policy_that_cleans_up() -> None:
    objects = compiled(AFTER, driver={"enabledCleanup": True, "drain": {"enabled": False}})

    assert objects.keys() >= GUARD
    assert "guard/validatingadmissionpolicy-net-driver.yaml" not in objects


def test_the_right_is_listed_as_a_privilege() -> None:
    objects = compiled(AFTER)

    lines = privileges.listed([objects[DAEMON_SET]], objects.values())

    assert "net-driver: rbac: /pods delete,list" in map(str, lines)


class Node:
    """A node whose folders stand in place of the real ones, and the program that the container runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        objects = compiled(AFTER)
        pod = objects["net/daemonset-net-control-desk.yaml"]["spec"]["template"]["spec"]
        waiting, *_ = pod["initContainers"]
        self.modules = root / "modules"
        mounts = {mount["name"]: mount["mountPath"] for mount in waiting["volumeMounts"]}
        seen = {volume["hostPath"]["path"]: mounts[volume["name"]] for volume in pod["volumes"]}
        assert all(mount["readOnly"] for mount in waiting["volumeMounts"])
        own = paths.Own(msgspec.convert(json.loads(config(objects))["home"], shapes.Home))
        self.changing, self.unproved = (
            root / seen[str(Path(path).parent)].removeprefix("/host/") / Path(path).name
            for path in (own.changing, own.blocked)
        )
        for folder in (self.modules, self.changing.parent, self.unproved.parent):
            folder.mkdir()
        moved = (("/host", str(root)), ("/sys/module", str(self.modules)), ("sleep 2", "sleep 0.05"))
        self.command = waiting["command"]
        for old, new in moved:
            self.command = [part.replace(old, new) for part in self.command]

    def load(self, *names: str) -> None:
        for name in names:
            (self.modules / name).mkdir()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(self.command, stderr=subprocess.DEVNULL, start_new_session=True) as program:
            try:
                yield program
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def waits(program: "subprocess.Popen[bytes]") -> bool:
    """Whether it is still there after several looks."""
    time.sleep(0.3)
    return program.poll() is None


def test_a_program_starts_once_the_driver_is_loaded_and_proved(node: Node) -> None:
    node.changing.touch()
    with node.waiting() as program:
        node.load("net", "net_char")
        node.unproved.touch()
        node.changing.unlink()
        assert waits(program)

        node.unproved.unlink()

        assert program.wait(timeout=30) == 0


def test_a_program_that_waits_since_before_the_change_sees_it_begin(node: Node) -> None:
    with node.waiting() as program:
        assert waits(program)
        node.changing.touch()
        node.load("net", "net_char")
        assert waits(program)

        node.changing.unlink()

        assert program.wait(timeout=30) == 0


def test_a_program_waits_for_every_module_of_the_policy(node: Node) -> None:
    node.load("net")
    with node.waiting() as program:
        assert waits(program)

        node.load("net_char")

        assert program.wait(timeout=30) == 0


def test_a_folder_that_cannot_be_read_is_no_proof(node: Node) -> None:
    node.load("net", "net_char")
    node.changing.parent.rmdir()

    with node.waiting() as program:
        assert waits(program)


def test_a_container_that_waits_ends_at_once_when_it_is_to(node: Node) -> None:
    with node.waiting() as program:
        assert waits(program)

        program.send_signal(signal.SIGTERM)

        assert program.wait(timeout=30) == 143
