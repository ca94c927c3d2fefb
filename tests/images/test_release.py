"""A release can be made again, and whatever was changed in it is refused: ci/release.sh without its host."""

import contextlib
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import revisions, tools
from tests.images import inputs, releases, stores
from tests.images.releases import ARCHITECTURE, VERSION, Release

NAMES = (*inputs.folders(), "kae-compiler")
WHEEL = f"kae_compiler-{VERSION}-py3-none-any.whl"
WATCHER = f"kae-watcher-{ARCHITECTURE}"
FIRST = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "1"}
SECOND = {"LC_ALL": "POSIX", "TZ": "Asia/Shanghai", "PYTHONHASHSEED": "2"}

Pull = Callable[[str], subprocess.CompletedProcess[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Two releases of a tag. The registry and the store of the first are gone."""

    first: dict[str, str]
    second: dict[str, str]
    release: Release


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Two releases, each with a clone, a home, a store and a registry of its own."""
    tools.require_cluster(releases.obstacles())
    top = tmp_path_factory.mktemp("release")
    (top / "signer").mkdir()
    releases.make_signer(top / "signer")
    address = releases.free_address()
    commit = revisions.git(inputs.ROOT, "rev-parse", "HEAD").strip()
    one = releases.Place(folder=top / "one", commit=commit, variables=FIRST, umask=0o022)
    other = releases.Place(folder=top / "another/place/than/one", commit=commit, variables=SECOND, umask=0o077)
    with releases.opened(one, address, top / "signer") as release:
        first = release.made()
    with releases.opened(other, address, top / "signer") as release:
        yield Made(first=first, second=release.made(), release=release)


@pytest.fixture
def release(made: Made) -> Release:
    return made.release


@contextlib.contextmanager
def changed(path: Path, at: int = 0) -> Iterator[None]:
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
    try:
        yield
    finally:
        path.write_bytes(whole)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_two_releases_of_a_tag_have_the_same_digests(made: Made) -> None:
    assert made.second == made.first
    assert {f"{name}-{ARCHITECTURE}" for name in NAMES} | {*NAMES, "SHA256SUMS"} == set(made.first)
    assert WHEEL in made.first["SHA256SUMS"]


def test_a_release_is_signed_and_can_be_verified(release: Release) -> None:
    done = release.step("verify")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"All of release {VERSION} is signed, and nothing has changed since.\n")
    assert (release.dist / "images.txt").read_text().splitlines() == [
        f"{release.registry}/{name}:{VERSION}@{release.digest(name)}" for name in NAMES
    ]


def test_the_provenance_names_the_repository_and_the_commit(release: Release) -> None:
    text = (release.dist / "provenance.json").read_text()
    said, commit = json.loads(text), revisions.git(release.place.clone, "rev-parse", "HEAD").strip()

    definition = said["buildDefinition"]
    assert definition["buildType"] == f"https://github.com/{releases.OWNER}/blob/{commit}/ci/release.sh"
    assert definition["resolvedDependencies"] == [
        {"uri": f"git+https://github.com/{releases.OWNER}", "digest": {"gitCommit": commit}}
    ]
    assert said["runDetails"]["builder"]["id"] == releases.IDENTITY


def test_wheel_and_image_of_a_release_do_the_main_job(release: Release) -> None:
    done = release.step("try")

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(
        rf"Wheel and image of {VERSION} compile the example fleet to the same \d+ files\.\n", done.stdout
    )


def test_the_wheel_names_the_images_of_its_release(release: Release) -> None:
    with zipfile.ZipFile(release.dist / WHEEL) as wheel:
        table = wheel.read("compiler/release.py").decode()
        schema = wheel.read("compiler/schemas/kaecluster.json").decode()

    assert f'REGISTRY = "{release.registry}"\n' in table
    assert [name for name in inputs.folders() if f'"{name}": "{release.digest(name)}"' not in table] == []
    assert release.image("kae-watcher") in schema
    assert revisions.git(release.place.clone, "status", "--porcelain") == ""


def test_everything_says_the_version_of_the_tag(release: Release, tmp_path: Path) -> None:
    in_image = {
        name: release.store.run(f"{release.registry}/{name}:{VERSION}-{ARCHITECTURE}", *command, "--version").stdout
        for name, command in (
            ("kae-compiler", ("kae",)),
            *((name, ("python", "-m", folder)) for name, folder in inputs.folders().items()),
        )
    }

    fleet = new_fleet(release, tmp_path)

    assert in_image == {"kae-compiler": f"kae {VERSION}\n"} | {
        name: f"{name} {VERSION} (config version 2)\n" for name in inputs.folders()
    }
    policy = (fleet / "policies/policy.yaml").read_text()
    assert re.findall(r"^ +version: (.*)$", policy, re.MULTILINE) == [VERSION]
    assert "  devicePlugin: {}\n" in policy


@pytest.mark.parametrize("name", NAMES)
def test_what_is_in_an_image_is_listed_by_the_schema_of_cyclonedx(release: Release, name: str) -> None:
    text = (release.dist / f"{name}-{ARCHITECTURE}.cdx.json").read_text()

    listed = json.loads(text)
    releases.list_schema().validate(listed)
    assert listed["metadata"]["component"]["version"] == VERSION
    packages = {component.get("purl", "").partition("@")[0] for component in listed["components"]}
    expected = {"kae-device-plugin": "grpcio", "kae-driver-installer": "google-re2", "kae-watcher": "kubernetes"}
    assert packages >= {"pkg:deb/debian/libc6", f"pkg:pypi/{expected.get(name, 'pydantic')}"}
    parts = {component["name"]: component for component in listed["components"]}
    assert "distro=debian-" in parts["libc6"]["purl"]
    assert parts["tabulate" if name != "kae-watcher" else "msgspec"]["licenses"]


@pytest.mark.parametrize("file", ["images.txt", "SHA256SUMS", WHEEL, f"{WATCHER}.cdx.json"])
def test_a_byte_that_changed_is_refused(release: Release, file: str) -> None:
    with changed(release.dist / file):
        done = release.step("verify")

    assert re.search("FAILED|failed|invalid", refusal(done) + done.stdout)


@pytest.fixture
def pull(release: Release) -> Iterator[Pull]:
    with stores.empty() as store:
        command = ("env", f"CONTAINERS_STORAGE_CONF={store.conf}", "podman", "pull")
        yield lambda image: release.run(*command, image)


def test_a_manifest_of_which_the_registry_changed_a_byte_is_refused(release: Release, pull: Pull) -> None:
    path = release.blob(release.digest(WATCHER))
    size = path.read_bytes().index(b'"size":') + len(b'"size":')

    with changed(path, at=size):
        done = pull(release.image("kae-watcher"))

    assert "does not match provided manifest digest" in refusal(done)


def test_a_layer_of_which_the_registry_changed_a_byte_is_refused(release: Release, pull: Pull) -> None:
    own, other = (
        releases.manifest(release, release.digest(name))["layers"] for name in (WATCHER, f"kae-compiler-{ARCHITECTURE}")
    )
    layer = max((layer for layer in own if layer not in other), key=lambda layer: int(layer["size"]))
    honest = pull(release.image("kae-compiler"))
    with changed(release.blob(layer["digest"]), at=layer["size"] // 2):
        done = pull(release.image("kae-watcher"))

    assert honest.returncode == 0, honest.stderr
    assert f"Digest did not match, expected {layer['digest']}" in refusal(done)


def test_an_image_that_nobody_signed_is_refused(release: Release) -> None:
    image = put_changed(release, "kae-watcher")

    done = release.run("cosign", "verify", *judges(), image)

    assert "no signatures found" in refusal(done)


@pytest.mark.parametrize("identity", [releases.IDENTITY.replace("v7.8.9", "v7.8.8"), "https://github.com/other/kae"])
def test_a_signature_of_another_workflow_is_refused(release: Release, identity: str) -> None:
    image = release.image("kae-watcher")

    done = release.run("cosign", "verify", *judges(identity), image)

    assert "no matching CertificateIdentity" in refusal(done)


def test_the_list_of_another_image_is_refused(release: Release) -> None:
    image = release.image("kae-device-plugin", ARCHITECTURE)
    digest = image.partition("@")[2]
    verify = ("cosign", "verify-attestation", *judges(), "--type", "cyclonedx", image)
    honest = release.run(*verify)
    before = releases.referrers(release, digest)

    releases.put_lists_of(release, release.digest(WATCHER), upon=digest)
    swapped = release.run(*verify)
    releases.put(release, "kae-device-plugin", digest.replace(":", "-"), before, releases.INDEX)

    assert honest.returncode == 0, honest.stderr
    assert "artifact digest does not match any digest in statement" in refusal(swapped)


def put_changed(release: Release, name: str) -> str:
    """Put an image that nobody has signed beside a signed one, from which it differs by a byte; return its name."""
    content = release.blob(release.digest(name)).read_bytes() + b"\n"
    releases.put(release, name, "changed", content, releases.INDEX)
    return f"{release.registry}/{name}:changed"


def judges(identity: str = releases.IDENTITY) -> tuple[str, ...]:
    return "--certificate-identity", identity, "--certificate-oidc-issuer", releases.ISSUER


def test_the_commands_of_the_page_verify_a_release(release: Release, tmp_path: Path) -> None:
    folder = release_folder(release, tmp_path)

    done = release.run("bash", "-euxo", "pipefail", "-c", commands(release), folder=folder)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verified OK" in done.stderr
    assert f"{WHEEL}: OK" in done.stdout
    assert "\nkubernetes " in done.stdout


def test_the_commands_of_the_page_end_at_an_image_that_nobody_signed(release: Release, tmp_path: Path) -> None:
    folder = release_folder(release, tmp_path)
    with (folder / "output/east/images.txt").open("a") as images:
        images.write(f"{put_changed(release, 'kae-device-plugin')}\n")

    done = release.run("bash", "-euo", "pipefail", "-c", commands(release), folder=folder)

    assert "no signatures found" in refusal(done)


def commands(release: Release) -> str:
    page = (inputs.ROOT / "docs/verify.md").read_text("utf-8")
    text = "".join(re.findall(r"(?m)^    .*\n", page))
    assert text.count("cosign ") == 3
    text = text.replace("ghcr.io/OWNER/kae", release.registry).replace("OWNER/kae", releases.OWNER)
    return text.replace("0.2.0", VERSION).replace("arm64", ARCHITECTURE)


def release_folder(release: Release, folder: Path) -> Path:
    fleet = new_fleet(release, folder)
    for path in release.dist.iterdir():
        if path.is_file():
            shutil.copy(path, fleet)
    return fleet


def new_fleet(release: Release, folder: Path) -> Path:
    image = f"{release.registry}/kae-compiler:{VERSION}-{ARCHITECTURE}"
    script = f"kae init '{folder}/fleet' --cluster east && cd '{folder}/fleet' && kae compile"
    done = release.store.run(image, "sh", "-c", script, folder=folder, options=("--user=0", "--tmpfs=/tmp"))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "fleet"


def test_what_is_no_release_is_not_made(release: Release) -> None:
    revisions.git(release.place.clone, "tag", "--delete", f"v{VERSION}")
    try:
        done = release.step("programs")
    finally:
        revisions.git(release.place.clone, "tag", f"v{VERSION}")

    assert done.returncode == 1
    assert "is no release: tag the commit" in done.stderr
