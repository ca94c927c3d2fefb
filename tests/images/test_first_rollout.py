"""The first commands of docs/first-rollout.md, for podman and git: from a clone to a repository that is compiled."""

import contextlib
import http.client
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import revisions, tools
from tests.images import inputs, releases, stores

TOOLS = ("bash", "cat", "cp", "dirname", "find", "git", "grep", "mkdir", "podman", "rm", "sed", "sh")
"""The commands of the machine: every system with git has the others than podman."""


def block() -> str:
    """Return the commands, but for `podman login`: the test's registry knows no users."""
    text = (inputs.ROOT / "docs/first-rollout.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"## 1\. Build the images.*?-->\n\n((?:    [^\n]*\n)+)", text, re.DOTALL)
    return "".join(line for line in commands.splitlines(keepends=True) if "podman login" not in line)


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "kp920-01",
        "labels": {"kubernetes.io/arch": "arm64", "openfuyao.com/kae.hpre.present": "true"},
    },
}

_LIMITS = """
[containers]
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
"""
"""Without CAP_SYS_RESOURCE no limit can be raised, which podman would do."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the commands of the machine, and a kubectl for a cluster of one node."""
    tools.require_cluster(releases.obstacles())
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        (folder / name).symlink_to(shutil.which(name) or name)
    nodes = shlex.quote(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE]}))
    (folder / "kubectl").write_text(f"#!/bin/sh\necho {nodes}\n")
    (folder / "kubectl").chmod(0o755)
    return folder


def tags(address: str, name: str) -> list[str]:
    with contextlib.closing(http.client.HTTPConnection(address, timeout=30)) as connection:
        connection.request("GET", f"/v2/{name}/tags/list")
        return list(json.load(connection.getresponse())["tags"])


def test_podman_and_git_are_enough_from_a_clone_to_a_compiled_repository(
    store: stores.Store, machine: Path, tmp_path: Path
) -> None:
    subprocess.run(
        ("git", "clone", "--quiet", "--no-tags", str(inputs.ROOT), str(tmp_path / "kae")), check=True, timeout=60
    )
    revisions.git(tmp_path / "kae", "tag", f"v{stores.VERSION}")
    (tmp_path / "containers.conf").write_text(_LIMITS)

    address = releases.free_address()
    with releases.registry(tmp_path / "blobs", address):
        (tmp_path / "registries.conf").write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
        commands = block().replace("registry.example.com", address)
        store.run_here(
            *("bash", "-euxc", f"cd {shlex.quote(str(tmp_path / 'kae'))}\n{commands}"),
            **{"PATH": str(machine), "HOME": str(tmp_path), "BASE_IMAGE": stores.BASE},
            **{"IMAGE_FLAGS": shlex.join(stores.offline()), "REVISION": stores.REVISION},
            **{"CONTAINERS_REGISTRIES_CONF": str(tmp_path / "registries.conf")},
            **{"CONTAINERS_CONF": str(tmp_path / "containers.conf")},
        )
        pushed = {name: tags(address, f"team/{name}") for name in (*inputs.folders(), "kae-compiler")}

    images = (tmp_path / "fleet/output/east/images.txt").read_text().splitlines()
    own = [f"{address}/team/{name}:{stores.VERSION}" for name in ("kae-device-plugin", "kae-driver-installer")]
    assert [name for name in own if name not in images] == []
    assert pushed == {key: [stores.VERSION] for key in (*inputs.folders(), "kae-compiler")}
