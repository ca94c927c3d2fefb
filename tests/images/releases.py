"""A release without its host: ci/release.sh with a registry of this machine, and a certificate of its own."""

import contextlib
import hashlib
import http.client
import json
import os
import platform
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import referencing

from tests import revisions, tools
from tests.cluster.local import programs, waiting
from tests.images import inputs, stores

VERSION = "7.8.9"
OWNER = "team/kae"
WORKFLOW = f"https://github.com/{OWNER}/.github/workflows/release.yml@refs/tags/v"
IDENTITY = f"{WORKFLOW}{VERSION}"
ISSUER = "https://token.actions.githubusercontent.com"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"

_CERTIFICATE = f"""
keyUsage=critical,digitalSignature
extendedKeyUsage=codeSigning
subjectAltName=critical,URI:{WORKFLOW}VERSION
1.3.6.1.4.1.57264.1.1=ASN1:UTF8String:{ISSUER}
1.3.6.1.4.1.57264.1.8=ASN1:UTF8String:{ISSUER}
"""
"""The extensions by which Fulcio tells the workflow that signs, and who says so, as its docs/oid-info.md has them."""

_CERTIFY = """
new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
openssl req -x509 $new -keyout ca.key -out ca.pem -days 2 -subj /CN=ca \
    -addext keyUsage=critical,keyCertSign -addext basicConstraints=critical,CA:TRUE
openssl req $new -keyout signer.pem.key -subj /O=signer -out signer.csr
openssl x509 -req -in signer.csr -CA ca.pem -CAkey ca.key -days 1 -extfile extensions -out signer.pem
"$COSIGN" import-key-pair --yes --key signer.pem.key --output-key-prefix signer
"$COSIGN" trusted-root create --fulcio="url=https://fulcio.invalid,certificate-chain=$PWD/ca.pem" --out root.json
"""

_SIGNER = """#!/bin/sh
# cosign with a certificate and a root of trust of this machine, in place of those that sigstore's services give.
command=$1
shift
case $command in
    verify*) exec {cosign} "$command" --trusted-root {folder}/root.json \
        --insecure-ignore-tlog --insecure-ignore-sct "$@" ;;
    sign* | attest) exec {cosign} "$command" --key {folder}/signer.key --certificate {folder}/signer.pem \
        --use-signing-config=false --tlog-upload=false "$@" ;;
    *) exec {cosign} "$command" "$@" ;;
esac
"""


def obstacles() -> Iterator[str]:
    yield from stores.obstacles()
    yield from tools.packages((name, name) for name in ("git", "jq", "openssl"))
    yield from programs.lacking(programs.RELEASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a release is made: what may differ from machine to machine."""

    folder: Path
    """Of the clone and of the home."""

    commit: str
    variables: Mapping[str, str]
    umask: int
    version: str = VERSION
    """Of its tag."""

    @property
    def clone(self) -> Path:
        """The clone of this repository, at the tag."""
        return self.folder / "kae"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A clone at a tag, with a store and a registry. Nothing is made before `make`."""

    place: Place
    store: stores.Store
    blobs: Path
    registry: str
    environment: Mapping[str, str]

    @property
    def dist(self) -> Path:
        """What the steps hand on."""
        return self.place.clone / "dist"

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as the release would, in its clone or in another folder."""
        return subprocess.run(
            command,
            cwd=folder or self.place.clone,
            env=os.environ | self.environment,
            umask=self.place.umask,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )

    def step(self, *steps: str) -> subprocess.CompletedProcess[str]:
        return self.run("ci/release.sh", *steps)

    def made(self) -> dict[str, str]:
        done = self.step("programs", "wheel", "compiler", "lists", "try", "publish")
        assert done.returncode == 0, done.stdout + done.stderr
        return {path.name: path.read_text().strip() for path in (self.dist / "digests").iterdir()} | {
            "SHA256SUMS": (self.dist / "SHA256SUMS").read_text()
        }

    def digest(self, name: str) -> str:
        return (self.dist / "digests" / name).read_text().strip()

    def image(self, name: str, architecture: str = "") -> str:
        return f"{self.registry}/{name}@{self.digest(f'{name}-{architecture}' if architecture else name)}"

    def blob(self, digest: str) -> Path:
        kind, _, number = digest.partition(":")
        return self.blobs / f"docker/registry/v2/blobs/{kind}/{number[:2]}/{number}/data"


@contextlib.contextmanager
def opened(place: Place, address: str, signer: Path) -> Iterator[Release]:
    """A clone of this repository at a tag, whose registry has the address; nothing is built yet."""
    home, blobs = place.folder / "home", place.folder / "blobs"
    home.mkdir(parents=True)
    (home / "registries.conf").write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
    environment = {
        "PATH": os.pathsep.join((str(signer), programs.search_path())),
        "HOME": str(home),
        "REGISTRY": f"{address}/{OWNER}",
        "ARCHITECTURES": ARCHITECTURE,
        "BASE_IMAGE": stores.BASE,
        "IMAGE_FLAGS": shlex.join(("--no-cache", *stores.offline())),
        "COSIGN_PASSWORD": "",
        "COSIGN_IDENTITY": f"{WORKFLOW}{place.version}",
        "RUN_FLAGS": shlex.join(stores.RUN),
        "CONTAINERS_REGISTRIES_CONF": str(home / "registries.conf"),
        "SYFT_CHECK_FOR_APP_UPDATE": "false",
        # The environment is this checkout's, and imports are the clone's.
        "PYTHONPATH": str(place.clone),
        **place.variables,
    }
    with stores.opened() as store, registry(blobs, address):
        environment["CONTAINERS_STORAGE_CONF"] = str(store.conf)
        registry_name = environment["REGISTRY"]
        release = Release(place=place, store=store, blobs=blobs, registry=registry_name, environment=environment)
        clone = ("clone", "--quiet", "--no-tags", str(inputs.ROOT), str(place.clone))
        for command in (clone, ("-C", str(place.clone), "checkout", "--quiet", "--detach", place.commit)):
            done = release.run("git", *command, folder=place.folder)
            assert done.returncode == 0, done.stderr
        revisions.git(place.clone, "tag", f"v{place.version}")
        borrow_environment(place.clone)
        yield release


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextlib.contextmanager
def registry(blobs: Path, address: str) -> Iterator[None]:
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(blobs)}},
        "http": {"addr": address},
        "log": {"level": "error", "accesslog": {"disabled": True}},
    }
    (blobs.parent / "registry.json").write_text(json.dumps(config))
    command, log = (programs.path("registry"), "serve", str(blobs.parent / "registry.json")), blobs.parent / "log"
    environment = os.environ | {"OTEL_TRACES_EXPORTER": "none"}
    with log.open("w") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            waiting.until("the registry", lambda: _answers(address), explain=log.read_text)
            yield
        finally:
            process.terminate()


def _answers(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/v2/")
        return connection.getresponse().status == 200
    return False


def make_signer(folder: Path, version: str = VERSION) -> None:
    """Fill a folder with a `cosign` that signs as the workflow of the tag, and verifies without sigstore's services."""
    cosign = programs.path("cosign")
    (folder / "extensions").write_text(_CERTIFICATE.replace("VERSION", version))
    environment = os.environ | {"COSIGN": cosign, "COSIGN_PASSWORD": ""}
    subprocess.run(("sh", "-euc", _CERTIFY), cwd=folder, env=environment, capture_output=True, timeout=300, check=True)
    (folder / "cosign").write_text(_SIGNER.format(cosign=cosign, folder=folder))
    (folder / "cosign").chmod(0o755)


def borrow_environment(clone: Path) -> None:
    """Give a clone the Python of this checkout, by links in a folder of its own: no set-up can reach the real one."""
    (clone / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (clone / ".venv" / name).symlink_to(inputs.ROOT / ".venv" / name)
    (clone / ".venv/ready").touch()


def manifest(release: Release, digest: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(release.blob(digest).read_bytes())
    return read


def put(release: Release, name: str, reference: str, content: bytes, kind: str) -> None:
    _send(release, "PUT", f"{name}/manifests/{reference}", content, {"Content-Type": kind})


def referrers(release: Release, digest: str) -> bytes:
    (link,) = release.blobs.glob(f"**/_manifests/tags/{digest.replace(':', '-')}/current/link")
    return release.blob(link.read_text()).read_bytes()


def put_lists_of(release: Release, other: str, upon: str) -> None:
    """Have an image of the device plugin refer to the signed lists of an image of the watcher, and to nothing else."""
    index = json.loads(referrers(release, other))
    subject = {"mediaType": MANIFEST, "digest": upon, "size": release.blob(upon).stat().st_size}
    for entry in index["manifests"]:
        moved = json.dumps(manifest(release, entry["digest"]) | {"subject": subject}).encode()
        entry |= {"digest": f"sha256:{hashlib.sha256(moved).hexdigest()}", "size": len(moved)}
        copy_blobs(release, json.loads(moved))
        put(release, "kae-device-plugin", entry["digest"], moved, MANIFEST)
    put(release, "kae-device-plugin", upon.replace(":", "-"), json.dumps(index).encode(), INDEX)


def copy_blobs(release: Release, moved: dict[str, Any]) -> None:
    """Have the registry know the blobs of a manifest of the watcher in the repository of the device plugin, too."""
    for blob in (moved["config"], *moved["layers"]):
        query = f"mount={blob['digest']}&from={OWNER}/kae-watcher"
        _send(release, "POST", f"kae-device-plugin/blobs/uploads/?{query}")


def _send(release: Release, method: str, path: str, *content: Any) -> None:
    address, _, owner = release.registry.partition("/")
    with contextlib.closing(http.client.HTTPConnection(address, timeout=120)) as connection:
        connection.request(method, f"/v2/{owner}/{path}", *content)
        assert connection.getresponse().status == 201


def list_schema() -> jsonschema.Draft7Validator:
    names = ("bom-1.6.schema.json", "jsf-0.82.schema.json", "spdx.schema.json")
    whole, *parts = (json.loads((programs.folder() / name).read_text("utf-8")) for name in names)
    known = referencing.Registry().with_resources(
        (part["$id"], referencing.Resource.from_contents(part)) for part in parts
    )
    return jsonschema.Draft7Validator(whole, registry=known)
