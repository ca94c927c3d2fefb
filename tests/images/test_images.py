"""Rules for every image: it holds its program and nothing of where it was made."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.images import inputs, stores

NAMES = tuple(inputs.folders())
USERS = {"kae-watcher": "65532:65532"}
"""The users that images run as; root, where none is stated."""

UNCOMPILED = """
import importlib.util, pathlib, sysconfig
for top in ("/app", sysconfig.get_path("purelib")):
    for source in pathlib.Path(top).rglob("*.py"):
        compiled = pathlib.Path(importlib.util.cache_from_source(source))
        # Flags 1: with a hash of the source that nobody compares (PEP 552).
        if not compiled.exists() or compiled.read_bytes()[4:8] != b"\\1\\0\\0\\0":
            print(source)
"""

_INSTALLED = """
from importlib import metadata
print(*sorted((found.name for found in metadata.distributions()), key=str.lower))
"""

LICENCES = "/usr/share/licenses/kae"

_FILES = """
import pathlib
for path in sorted(pathlib.Path("/app").rglob("*")):
    if path.is_file() and "__pycache__" not in path.parts:
        print(path.relative_to("/app"))
"""


def image(store: stores.Store, name: str) -> Mapping[str, Any]:
    """Return podman's description of an image."""
    (found,) = json.loads(store.inspected(stores.named(name)))
    return dict(found)


def test_the_images_are_those_of_the_programs() -> None:
    assert inputs.folders() == {
        "kae-device-plugin": "device_plugin",
        "kae-driver-installer": "installer",
        "kae-watcher": "watcher",
    }


@pytest.mark.parametrize("name", NAMES)
def test_an_image_keeps_nothing_of_where_packages_came_from(store: stores.Store, name: str) -> None:
    found = image(store, name)

    assert "PIP_" not in json.dumps([found["Config"], found["History"]])
    assert "wheels" not in json.dumps([found["Config"], found["History"]])


@pytest.mark.parametrize("name", NAMES)
def test_an_image_says_what_it_is(store: stores.Store, name: str) -> None:
    found = image(store, name)["Labels"]

    assert found["org.opencontainers.image.title"] == name
    assert found["org.opencontainers.image.description"]
    assert found["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert found["org.opencontainers.image.version"] == stores.VERSION
    assert found["org.opencontainers.image.revision"] == stores.REVISION


@pytest.mark.parametrize("name", NAMES)
def test_an_image_runs_its_program_as_its_user_from_its_own_folder(store: stores.Store, name: str) -> None:
    found = image(store, name)["Config"]

    assert found["Entrypoint"] == ["python", "-m", inputs.folders()[name]]
    assert (found["WorkingDir"], found["User"]) == ("/app", USERS.get(name, "0:0"))


@pytest.mark.parametrize("name", NAMES)
def test_an_image_holds_its_program_and_what_it_shares_with_others_and_nothing_else(
    store: stores.Store, name: str
) -> None:
    expected = inputs.shipped(inputs.folders()[name])

    done = store.run(stores.named(name), "python", "-c", _FILES)

    assert done.stdout.split() == sorted(map(str, expected))


@pytest.mark.parametrize("name", NAMES)
def test_every_module_is_compiled_for_good(store: stores.Store, name: str) -> None:
    done = store.run(stores.named(name), "python", "-c", UNCOMPILED)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", NAMES)
def test_an_image_holds_its_licence_and_that_of_every_package(store: stores.Store, name: str) -> None:
    installed = store.run(stores.named(name), "python", "-c", _INSTALLED).stdout.split()

    held = store.run(stores.named(name), "cat", f"{LICENCES}/THIRD_PARTY.txt").stdout
    own = store.run(stores.named(name), "cat", f"{LICENCES}/LICENSE").stdout

    assert own == (inputs.ROOT / "LICENSE").read_text("utf-8")
    assert installed
    assert [line.partition(" ")[0] for line in held.partition("\n===")[0].splitlines()[3:] if line] == installed
    assert [package for package in installed if f"\n=== {package} " not in held] == []
    assert "holds no licence text" not in held


@pytest.mark.parametrize("name", NAMES)
def test_a_program_says_the_version_of_its_image(store: stores.Store, name: str) -> None:
    done = store.run(stores.named(name), "python", "-m", inputs.folders()[name], "--version")

    assert (done.returncode, done.stdout) == (0, f"{name} {stores.VERSION} (config version 1)\n")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_root_can_be_written(store: stores.Store, name: str) -> None:
    done = store.run(stores.named(name), "python", "-c", "open('/app/file', 'w')")

    assert "Read-only file system" in done.stderr
