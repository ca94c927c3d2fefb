"""`kae preflight --image` reads the labels of an image, and says what it lacks where policies put it."""

import gzip
import io
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from installer import paths
from tests import imagefiles, in_process, project
from tests.cli import fleet
from tests.cli.answers import answered, refused

IMAGE = "cr.openfuyao.cn/openfuyao/kae-driver-installer:2.2.0"
KERNEL = fleet.NODES[0]["status"]["nodeInfo"]["kernelVersion"]
ANOTHER = f"standard input is about docker.io/library/nginx, and not about '{IMAGE}'."
LABELS = imagefiles.labels(version="2.2.0", kernels=f"6.6.0-1.aarch64 {KERNEL}", sources="build prebuilt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project whose policy takes modules from the image."""
    policy = fleet.POLICY.replace("2.2.0\n", "2.2.0\n    source: {prebuilt: {}}\n", 1)
    texts = {"policies/all.yaml": policy, "policies/east.yaml": fleet.EAST}
    return project.write(tmp_path, texts | {"inventory/east.json": fleet.listed()})


@pytest.mark.parametrize("is_of_docker", [False, True])
def test_an_archive_with_all_that_its_policy_needs_is_fine(is_of_docker: bool, folder: Path) -> None:
    if is_of_docker:
        imagefiles.write_docker(folder / "driver.tar", [IMAGE], LABELS)
    else:
        imagefiles.write_oci(folder / "driver.tar", IMAGE, LABELS)

    assert answered(folder, "preflight", "--image", "driver.tar").splitlines() == [
        IMAGE,
        "  driver   2.2.0",
        "  sources  build, prebuilt",
        f"  kernels  {', '.join(sorted(['6.6.0-1.aarch64', KERNEL]))}",
        "  cluster east, policy tls, pool tls: 1 node by prebuilt",
    ]


def test_a_terminal_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)

    said = refused(1, folder, "preflight", "--image", IMAGE)

    assert f"skopeo inspect docker://{IMAGE} | kae preflight --image {IMAGE}" in said


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--image", IMAGE, "--kernel", KERNEL), 2, ""),
        ((), 2, ""),
        (("--image", "driver.tar", "--os", "openEuler 22.03 (LTS-SP4)"), 2, "--os is about --kernel."),
        (("--image", "other:2.2.0"), 1, "no policy installs a driver from 'other:2.2.0'"),
    ],
)
def test_a_question_that_cannot_be_meant_is_refused(
    options: tuple[str, ...], code: int, words: str, folder: Path, piped: Callable[[str], None]
) -> None:
    piped(json.dumps({"Labels": LABELS}))

    answer = in_process.kae(folder, "preflight", *options)

    assert answer.code == code
    assert words in answer.err


def hostile(content: bytes, *, link: str = "") -> bytes:
    """Return an archive whose manifest has this content, or is a link."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(content)
        if link:
            entry.type, entry.linkname = tarfile.SYMTYPE, link
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


NO_IMAGE, NO_NAME = "driver.tar is no archive of one image.", "the image in driver.tar has no name."
TWO_NAMES = f"the image in driver.tar has the names {IMAGE} and other:1."
ARCHIVES: dict[str, tuple[Callable[[Path], object], str]] = {
    "unnamed": (lambda path: imagefiles.write_oci(path, None, LABELS), NO_NAME),
    "untagged": (lambda path: imagefiles.write_docker(path, None, LABELS), NO_NAME),
    "several": (lambda path: imagefiles.write_oci(path, IMAGE, LABELS, images=2), NO_IMAGE),
    "names": (lambda path: imagefiles.write_docker(path, [IMAGE, "other:1"], LABELS), TWO_NAMES),
    "text": (lambda path: path.write_text("text\n"), NO_IMAGE),
    "nested": (lambda path: path.write_bytes(hostile(b"[" * 100_000)), NO_IMAGE),
    "link to itself": (lambda path: path.write_bytes(hostile(b"", link="manifest.json")), NO_IMAGE),
    "cut": (lambda path: path.write_bytes(gzip.compress(hostile(b"[]" * 10_000))[:100]), NO_IMAGE),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_of_anything_but_one_named_image_is_refused(name: str, folder: Path) -> None:
    write, words = ARCHIVES[name]
    write(folder / "driver.tar")

    assert words in refused(1, folder, "preflight", "--image", "driver.tar")


def test_an_image_of_several_platforms_is_read_where_all_hold_the_same(folder: Path) -> None:
    imagefiles.write_index(folder / "same.tar", IMAGE, LABELS, LABELS)
    imagefiles.write_index(folder / "other.tar", IMAGE, LABELS, LABELS | {f"{imagefiles.DRIVER}kernels": "6.6"})

    assert answered(folder, "preflight", "--image", "same.tar").splitlines()[0] == IMAGE
    assert "other.tar is no archive of one image." in refused(1, folder, "preflight", "--image", "other.tar")


@pytest.mark.parametrize(
    "said",
    [
        {"Name": IMAGE.rpartition(":")[0], "Labels": LABELS},  # skopeo inspect
        {"architecture": "arm64", "config": {"Labels": LABELS}},  # skopeo inspect --config
        [{"RepoTags": [IMAGE], "Labels": LABELS, "Config": {"Labels": LABELS}}],  # podman image inspect
        [{"RepoTags": [IMAGE], "Config": {"Labels": LABELS}}],  # docker image inspect
    ],
)
def test_what_programs_say_of_an_image_is_read_from_standard_input(
    folder: Path, said: object, piped: Callable[[str], None]
) -> None:
    piped(json.dumps(said))

    assert answered(folder, "preflight", "--image", IMAGE)


def test_a_kernel_without_modules_is_an_error_for_programs(folder: Path, piped: Callable[[str], None]) -> None:
    piped(json.dumps({"Labels": imagefiles.labels(version="2.2.0", kernels="6.6.0-1", sources="prebuilt")}))

    answer = in_process.kae(folder, "preflight", "--image", IMAGE, "-o", "json")

    read = json.loads(answer.out)
    assert answer.code == 1
    assert [item["code"] for item in read["diagnostics"]] == ["image-driver-kernel"]
    assert read["uses"] == [
        {"cluster": "east", "policy": "tls", "pool": "tls", "source": "prebuilt", "nodes": {KERNEL: 1}}
    ]


@pytest.mark.parametrize(("tag", "code"), [("2.2.0-b", 0), ("2.2.0", 0), ("2.2.01", 1), ("2.3.0", 1)])
def test_a_tag_is_the_version_in_the_image_and_perhaps_a_suffix(
    folder: Path, tag: str, code: int, piped: Callable[[str], None]
) -> None:
    text = (folder / "policies/all.yaml").read_text()
    project.write(folder, {"policies/all.yaml": text.replace("2.2.0", tag)})
    piped(json.dumps({"Labels": LABELS}))

    answer = in_process.kae(folder, "preflight", "--image", IMAGE.replace("2.2.0", tag))

    assert (answer.code, "error[image-driver-version]" in answer.err) == (code, code == 1)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"Labels": {"maintainer": "kae"}}, "has no label device.openfuyao.com/driver-version"),
        ({"Labels": None}, "has no label device.openfuyao.com/driver-version"),
        ({"Labels": "many"}, "is not what a program says of one image"),
        ([], "is not what a program says of one image"),
        ([{}, {}], "is not what a program says of one image"),
        (None, "is not what a program says of one image"),
        ({"Name": "docker.io/library/nginx", "RepoTags": ["2.2.0"], "Labels": LABELS}, ANOTHER),
        ([{"RepoTags": ["docker.io/library/nginx:2.2.0"], "Config": {"Labels": LABELS}}], ANOTHER),
    ],
)
def test_an_image_that_is_another_or_says_nothing_of_a_driver_is_refused(
    folder: Path, said: object, words: str, piped: Callable[[str], None]
) -> None:
    piped(json.dumps(said))

    assert words in refused(1, folder, "preflight", "--image", IMAGE)


@pytest.mark.parametrize(
    ("repository", "held", "code"),
    [
        (f"file://{paths.PACKAGES}", "build packages", 0),
        (f"file://{paths.PACKAGES}/", "build", 1),
        ("https://mirror.example.com/kae", "build", 0),
    ],
)
def test_packages_are_asked_of_an_image_only_where_they_come_from_it(
    folder: Path, repository: str, held: str, code: int, piped: Callable[[str], None]
) -> None:
    packages = f"{{packages: {{names: [kae-driver-2.2.0-1], repositories: ['{repository}']}}}}"
    text = (folder / "policies/all.yaml").read_text()
    project.write(folder, {"policies/all.yaml": text.replace("{prebuilt: {}}", packages)})
    piped(json.dumps({"Labels": imagefiles.labels(version="2.2.0", sources=held)}))

    answer = in_process.kae(folder, "preflight", "--image", IMAGE)

    assert (answer.code, "error[image-driver-source]" in answer.err) == (code, code == 1), answer.err
