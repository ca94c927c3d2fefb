"""Rules for every image: it holds its program and nothing of where it was made."""

import json

import pytest

from tests.images import inputs, stores

NAMES = tuple(inputs.folders())
USERS = {"kae-watcher": "65532:65532"}
"""The users that images run as; root, where none is stated."""

_INSTALLED = """
from importlib import metadata
print(*sorted((package.name for package in metadata.distributions()), key=str.lower))
"""

_FILES = """
import pathlib
for path in sorted(pathlib.Path("/app").rglob("*")):
    if path.is_file() and "__pycache__" not in path.parts:
        print(path.relative_to("/app"))
"""


def test_the_images_are_those_of_the_programs() -> None:
    assert inputs.folders() == {
        "kae-device-plugin": "device_plugin",
        "kae-driver-installer": "installer",
        "kae-watcher": "watcher",
    }


@pytest.mark.parametrize("name", NAMES)
def test_an_image_keeps_nothing_of_where_packages_came_from(store: stores.Store, name: str) -> None:
    image = store.inspected(stores.named(name))

    for word in ("PIP_", "wheels"):
        assert word not in json.dumps([image["Config"], image["History"]])


@pytest.mark.parametrize("name", NAMES)
def test_an_image_says_what_it_is(store: stores.Store, name: str) -> None:
    labels = store.inspected(stores.named(name))["Labels"]

    said = {key.removeprefix("org.opencontainers.image."): text for key, text in labels.items()}
    assert said.pop("description")
    expected = {"title": name, "licenses": "Apache-2.0", "version": stores.VERSION, "revision": stores.REVISION}
    assert {key: said[key] for key in expected} == expected


@pytest.mark.parametrize("name", NAMES)
def test_an_image_runs_its_program_as_its_user_from_its_own_folder(store: stores.Store, name: str) -> None:
    config = store.inspected(stores.named(name))["Config"]

    assert config["Entrypoint"] == ["python", "-m", inputs.folders()[name]]
    assert config["WorkingDir"] == "/app"
    assert config["User"] == USERS.get(name, "0:0")


@pytest.mark.parametrize("name", NAMES)
def test_an_image_holds_its_program_and_what_it_shares_and_nothing_else(store: stores.Store, name: str) -> None:
    expected = inputs.shipped(inputs.folders()[name])

    done = store.run(stores.named(name), "python", "-c", _FILES)

    assert done.stdout.split() == sorted(map(str, expected))


@pytest.mark.parametrize("name", NAMES)
def test_every_module_is_compiled_for_good(store: stores.Store, name: str) -> None:
    assert store.uncompiled(stores.named(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_image_holds_its_licence_and_that_of_every_package(store: stores.Store, name: str) -> None:
    installed = store.run(stores.named(name), "python", "-c", _INSTALLED).stdout.split()

    held = store.licences(stores.named(name))

    assert installed
    assert [line.partition(" ")[0] for line in held.partition("\n===")[0].splitlines()[3:] if line] == installed
    assert [package for package in installed if f"\n=== {package} " not in held] == []
    assert "holds no licence text" not in held


@pytest.mark.parametrize("name", NAMES)
def test_a_program_says_the_version_of_its_image(store: stores.Store, name: str) -> None:
    done = store.run(stores.named(name), "python", "-m", inputs.folders()[name], "--version")

    assert (done.returncode, done.stdout) == (0, f"{name} {stores.VERSION} (config version 2)\n")


@pytest.mark.parametrize("name", NAMES)
def test_a_program_says_what_is_wrong_before_it_works(store: stores.Store, name: str) -> None:
    done = store.run(stores.named(name), "python", "-m", inputs.folders()[name], "--config=/absent.json")

    assert done.returncode == 1
    assert "/absent.json" in done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_root_can_be_written(store: stores.Store, name: str) -> None:
    done = store.run(stores.named(name), "python", "-c", "open('/app/file', 'w')")

    assert "Read-only file system" in done.stderr
