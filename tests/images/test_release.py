"""A release without its host: the steps of ci/release.sh with a registry and a key of this machine.

It wants `cosign` and `registry` on the PATH; CONTRIBUTING.md says how Go builds them.
"""

import contextlib
import http.client
import json
import os
import shlex
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import revisions
from tests.images import inputs, stores

TOOLS = ("cosign", "registry")
NAMES = (*inputs.folders(), "kae-compiler")
VERSION = "7.8.9"

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS),
    reason="cosign and registry are not on the PATH; CONTRIBUTING.md says how to build them.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A clone at a tag, and what the script is told."""

    folder: Path
    registry: str
    environment: Mapping[str, str]

    @property
    def dist(self) -> Path:
        """What the steps hand on."""
        return self.folder / "dist"

    def run(self, *steps: str) -> subprocess.CompletedProcess[str]:
        """Run steps of the script."""
        return subprocess.run(
            ("ci/release.sh", *steps),
            cwd=self.folder,
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    def make(self) -> dict[str, str]:
        """Make the release, and return the digest of each image and of each of its architectures."""
        shutil.rmtree(self.dist, ignore_errors=True)
        done = self.run("programs", "wheel", "compiler", "publish")
        assert done.returncode == 0, done.stdout + done.stderr
        return {path.name: path.read_text().strip() for path in (self.dist / "digests").iterdir()}


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    """A registry on the loopback address, as host and port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": address},
        "log": {"level": "error", "accesslog": {"disabled": True}},
    }
    (folder / "registry.json").write_text(json.dumps(config))
    command, log = ("registry", "serve", str(folder / "registry.json")), folder / "registry.log"
    environment = os.environ | {"OTEL_TRACES_EXPORTER": "none"}
    with log.open("w") as told, subprocess.Popen(command, env=environment, stdout=told, stderr=told) as process:
        try:
            deadline = time.monotonic() + 30
            while not answers(address):
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield address
        finally:
            process.terminate()


def answers(address: str) -> bool:
    """Return whether a server is there."""
    connection = http.client.HTTPConnection(address, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/v2/")
        return connection.getresponse().status == 200
    return False


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """A clone of this repository at a tag, with a key, a store and a registry; nothing is built yet."""
    top = tmp_path_factory.mktemp("release")
    folder = top / "clone"
    subprocess.run(("git", "clone", "--quiet", str(inputs.ROOT), str(folder)), check=True, timeout=60)
    revisions.git(folder, "tag", f"v{VERSION}")
    borrow_environment(folder)
    environment = {"COSIGN_PASSWORD": "", "COSIGN_KEY": str(top / "cosign.key")}
    subprocess.run(
        ("cosign", "generate-key-pair"),
        cwd=top,
        env=os.environ | environment,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (top / "containers.conf").write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n')
    with stores.opened() as store, registry(top) as address:
        yield Release(
            folder=folder,
            registry=f"{address}/team/kae",
            environment=environment
            | {
                "REGISTRY": f"{address}/team/kae",
                "ARCHITECTURES": "amd64",
                "TLS_VERIFY": "false",
                "BASE_IMAGE": stores.BASE,
                "IMAGE_FLAGS": shlex.join(flags()),
                "CONTAINERS_STORAGE_CONF": str(store.folder / "storage.conf"),
                "CONTAINERS_CONF": str(top / "containers.conf"),
                # The environment is this checkout's, and imports are the clone's.
                "PYTHONPATH": str(folder),
            },
        )


def borrow_environment(folder: Path) -> None:
    """Give a clone the Python of this checkout, by links in a folder of its own: no set-up can reach the real one."""
    (folder / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / name).symlink_to(inputs.ROOT / ".venv" / name)
    (folder / ".venv/ready").touch()


def flags() -> list[str]:
    """Return the flags by which builds have no network, and wheels from folders."""
    locks = [inputs.ROOT / folder / "requirements.lock" for folder in inputs.folders().values()]
    folders = [inputs.wheels(lock) for lock in (*locks, inputs.ROOT / "templates/init/ci/requirements.txt")]
    volumes = [f"--volume={folder}:/wheels/{number}:ro" for number, folder in enumerate(folders)]
    places = " ".join(f"/wheels/{number}" for number in range(len(folders)))
    return [
        "--no-cache",
        "--network=none",
        *volumes,
        "--build-arg=PIP_NO_INDEX=1",
        f"--build-arg=PIP_FIND_LINKS={places}",
    ]


@pytest.fixture(scope="module")
def digests(release: Release) -> dict[str, str]:
    """The digests of a release that is made."""
    return release.make()


def test_a_release_is_signed_and_can_be_verified(release: Release, digests: dict[str, str]) -> None:
    done = release.run("verify")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"All of release {VERSION} is signed, and nothing has changed since.\n")
    assert (release.dist / "images.txt").read_text().splitlines() == [
        f"{release.registry}/{name}:{VERSION}@{digests[name]}" for name in NAMES
    ]


def test_the_wheel_names_the_images_of_its_release(release: Release, digests: dict[str, str]) -> None:
    with zipfile.ZipFile(release.dist / f"kae_compiler-{VERSION}-py3-none-any.whl") as wheel:
        table = wheel.read("compiler/release.py").decode()
        schema = wheel.read("compiler/schemas/kaecluster.json").decode()

    assert f'REGISTRY = "{release.registry}"\n' in table
    assert [name for name in inputs.folders() if f'"{name}": "{digests[name]}"' not in table] == []
    assert f"{release.registry}/kae-watcher@{digests['kae-watcher']}" in schema
    assert revisions.git(release.folder, "status", "--porcelain") == ""


def test_what_is_in_an_image_is_listed(release: Release, digests: dict[str, str]) -> None:
    listed = json.loads((release.dist / "kae-watcher-amd64.cdx.json").read_text())

    names = {component["name"] for component in listed["components"]}
    assert listed["metadata"]["component"]["version"] == VERSION
    assert names >= {"git", "libc6", "kubernetes", "msgspec"}
    assert len(names) > 50


@pytest.mark.parametrize("file", ["images.txt", "SHA256SUMS", f"kae_compiler-{VERSION}-py3-none-any.whl"])
def test_a_byte_that_changed_is_refused(release: Release, digests: dict[str, str], file: str) -> None:
    path = release.dist / file
    whole = path.read_bytes()
    path.write_bytes(bytes((whole[0] ^ 1,)) + whole[1:])

    done = release.run("verify")

    path.write_bytes(whole)
    assert done.returncode != 0


def test_an_image_that_nobody_signed_is_refused(release: Release, digests: dict[str, str]) -> None:
    address, _, path = release.registry.partition("/")
    manifests = f"/v2/{path}/kae-watcher/manifests"
    with contextlib.closing(http.client.HTTPConnection(address, timeout=30)) as connection:
        connection.request("GET", f"{manifests}/{digests['kae-watcher']}")
        signed = connection.getresponse()
        changed, kind = signed.read() + b"\n", signed.headers["Content-Type"]
        connection.request("PUT", f"{manifests}/changed", changed, {"Content-Type": kind})
        assert connection.getresponse().status == 201
    key = release.environment["COSIGN_KEY"].replace(".key", ".pub")
    flags = ("--insecure-ignore-tlog=true", "--allow-http-registry")

    done = subprocess.run(
        ("cosign", "verify", "--key", key, *flags, f"{release.registry}/kae-watcher:changed"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode != 0
    assert "no signatures found" in done.stderr


def test_another_build_of_the_tag_has_the_same_digests(release: Release, digests: dict[str, str]) -> None:
    wheel = release.dist / f"kae_compiler-{VERSION}-py3-none-any.whl"
    first = wheel.read_bytes()

    again = release.make()

    assert again == digests
    assert wheel.read_bytes() == first


def test_what_is_no_release_is_not_made(release: Release) -> None:
    revisions.git(release.folder, "tag", "--delete", f"v{VERSION}")
    try:
        done = release.run("programs")
    finally:
        revisions.git(release.folder, "tag", f"v{VERSION}")

    assert done.returncode == 1
    assert "is no release: tag the commit" in done.stderr
