"""`kae preflight --image` reads the labels of an image, and says what it lacks where policies put it."""

import gzip
import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

from installer import paths
from tests import imagefiles, in_process, project
from tests.cli import fleet

IMAGE = "cr.openfuyao.cn/openfuyao/kae-driver-installer:2.2.0"
KERNEL = fleet.NODES[0]["status"]["nodeInfo"]["kernelVersion"]
LABELS = imagefiles.labels(version="2.2.0", kernels=f"6.6.0-1.aarch64 {KERNEL}", sources="build prebuilt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project whose policy takes modules from the image."""
    policy = fleet.POLICY.replace("2.2.0\n", "2.2.0\n    source: {prebuilt: {}}\n", 1)
    texts = {"policies/all.yaml": policy, "policies/east.yaml": fleet.EAST}
    return project.write(tmp_path, texts | {"inventory/east.json": fleet.listed()})


def piped(monkeypatch: pytest.MonkeyPatch, data: object) -> None:
    """Let standard input hold JSON."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(data).encode())))


def test_an_oci_archive_with_all_that_its_policy_needs_is_fine(folder: Path) -> None:
    imagefiles.write_oci(folder / "driver.tar", IMAGE, LABELS)

    answer = in_process.kae(folder, "preflight", "--image", "driver.tar")

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        IMAGE,
        "  driver   2.2.0",
        "  sources  build, prebuilt",
        f"  kernels  {', '.join(sorted(['6.6.0-1.aarch64', KERNEL]))}",
        "  cluster east, policy tls, pool tls: 1 node by prebuilt",
    ]


def test_an_archive_of_docker_is_read_too(folder: Path) -> None:
    imagefiles.write_docker(folder / "driver.tar", [IMAGE], LABELS)

    assert in_process.kae(folder, "preflight", "--image", "driver.tar").code == 0


def test_an_image_of_several_platforms_is_read_where_all_hold_the_same(folder: Path) -> None:
    imagefiles.write_index(folder / "same.tar", IMAGE, LABELS, LABELS)
    imagefiles.write_index(folder / "other.tar", IMAGE, LABELS, LABELS | {f"{imagefiles.DRIVER}kernels": "6.6"})

    same, other = (in_process.kae(folder, "preflight", "--image", name) for name in ("same.tar", "other.tar"))

    assert (same.code, same.err) == (0, "")
    assert same.out.splitlines()[0] == IMAGE
    assert other.code == 1
    assert "other.tar is no archive of one image." in other.err


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
    folder: Path, said: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(monkeypatch, said)

    answer = in_process.kae(folder, "preflight", "--image", IMAGE)

    assert (answer.code, answer.err) == (0, "")


def test_a_kernel_without_modules_is_an_error_for_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, {"Labels": imagefiles.labels(version="2.2.0", kernels="6.6.0-1", sources="prebuilt")})

    answer = in_process.kae(folder, "preflight", "--image", IMAGE, "-o", "json")

    found = json.loads(answer.out)
    assert answer.code == 1
    assert [item["code"] for item in found["diagnostics"]] == ["image-driver-kernel"]
    assert found["uses"] == [
        {"cluster": "east", "policy": "tls", "pool": "tls", "source": "prebuilt", "nodes": {KERNEL: 1}}
    ]


@pytest.mark.parametrize(("tag", "code"), [("2.2.0-b", 0), ("2.2.0", 0), ("2.2.01", 1), ("2.3.0", 1)])
def test_a_tag_is_the_version_in_the_image_and_perhaps_a_suffix(
    folder: Path, tag: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (folder / "policies/all.yaml").read_text()
    project.write(folder, {"policies/all.yaml": text.replace("2.2.0", tag)})
    piped(monkeypatch, {"Labels": LABELS})

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
    ],
)
def test_an_image_that_says_nothing_of_a_driver_is_refused(
    folder: Path, said: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(monkeypatch, said)

    answer = in_process.kae(folder, "preflight", "--image", IMAGE)

    assert (answer.code, answer.out) == (1, "")
    assert words in answer.err


def test_a_terminal_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, {"Labels": LABELS})
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)

    answer = in_process.kae(folder, "preflight", "--image", IMAGE)

    assert (answer.code, answer.out) == (1, "")
    assert f"skopeo inspect docker://{IMAGE} | kae preflight --image {IMAGE}" in answer.err


def test_an_image_that_no_policy_takes_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, {"Labels": LABELS})

    answer = in_process.kae(folder, "preflight", "--image", "registry.example.com/other:2.2.0")

    assert answer.code == 1
    assert "no policy installs a driver from 'registry.example.com/other:2.2.0'" in answer.err


def test_an_archive_without_a_name_or_with_several_images_is_refused(folder: Path) -> None:
    imagefiles.write_oci(folder / "unnamed.tar", None, LABELS)
    imagefiles.write_oci(folder / "several.tar", IMAGE, LABELS, images=2)
    imagefiles.write_docker(folder / "names.tar", [IMAGE, "other:1"], LABELS)
    imagefiles.write_docker(folder / "untagged.tar", None, LABELS)
    (folder / "text.tar").write_text("text\n")

    said = {
        name: in_process.kae(folder, "preflight", "--image", f"{name}.tar")
        for name in ("unnamed", "untagged", "several", "names", "text")
    }

    assert {answer.code for answer in said.values()} == {1}
    assert "the image in unnamed.tar has no name." in said["unnamed"].err
    assert "the image in untagged.tar has no name." in said["untagged"].err
    assert f"the image in names.tar has the names {IMAGE} and other:1." in said["names"].err
    assert "several.tar is no archive of one image." in said["several"].err
    assert "text.tar is no archive of one image." in said["text"].err


@pytest.mark.parametrize(
    ("repository", "held", "code"),
    [
        (f"file://{paths.PACKAGES}", "build packages", 0),
        (f"file://{paths.PACKAGES}/", "build", 1),
        ("https://mirror.example.com/kae", "build", 0),
    ],
)
def test_packages_are_asked_of_an_image_only_where_they_come_from_it(
    folder: Path, repository: str, held: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = f"{{packages: {{names: [kae-driver-2.2.0-1], repositories: ['{repository}']}}}}"
    text = (folder / "policies/all.yaml").read_text()
    project.write(folder, {"policies/all.yaml": text.replace("{prebuilt: {}}", packages)})
    piped(monkeypatch, {"Labels": imagefiles.labels(version="2.2.0", sources=held)})

    answer = in_process.kae(folder, "preflight", "--image", IMAGE)

    assert (answer.code, "error[image-driver-source]" in answer.err) == (code, code == 1), answer.err


def test_a_kernel_and_an_image_are_two_questions(folder: Path) -> None:
    both = in_process.kae(folder, "preflight", "--image", IMAGE, "--kernel", KERNEL)
    none = in_process.kae(folder, "preflight")

    assert (both.code, none.code) == (2, 2)


def test_documents_with_mistakes_are_shown_instead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(folder, {"policies/wrong.yaml": "a: b: c\n"})
    piped(monkeypatch, {"Labels": LABELS})

    answer = in_process.kae(folder, "preflight", "--image", IMAGE)

    assert (answer.code, answer.out) == (1, "")
    assert "error[yaml-syntax]" in answer.err


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


@pytest.mark.parametrize(
    "content",
    [
        hostile(b"[" * 100_000),
        hostile(b"", link="manifest.json"),
        gzip.compress(hostile(b"[]" * 10_000))[:100],
    ],
    ids=["nested", "link to itself", "cut"],
)
def test_a_hostile_archive_is_refused_in_a_sentence(folder: Path, content: bytes) -> None:
    (folder / "driver.tar").write_bytes(content)

    answer = in_process.kae(folder, "preflight", "--image", "driver.tar")

    assert answer.code == 1
    assert "driver.tar is no archive of one image." in answer.err


def test_a_system_beside_an_image_is_a_usage_error(folder: Path) -> None:
    imagefiles.write_oci(folder / "driver.tar", IMAGE, LABELS)

    answer = in_process.kae(folder, "preflight", "--image", "driver.tar", "--os", "openEuler 22.03 (LTS-SP4)")

    assert (answer.code, answer.out) == (2, "")
    assert "--os is about --kernel." in answer.err


@pytest.mark.parametrize(
    "said",
    [
        {"Name": "docker.io/library/nginx", "RepoTags": ["2.2.0"], "Labels": LABELS},
        [{"RepoTags": ["docker.io/library/nginx:2.2.0"], "Config": {"Labels": LABELS}}],
    ],
)
def test_what_is_said_of_another_image_is_refused(folder: Path, said: object, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, said)

    answer = in_process.kae(folder, "preflight", "--image", IMAGE)

    assert (answer.code, answer.out) == (1, "")
    assert f"standard input is about docker.io/library/nginx, and not about '{IMAGE}'." in answer.err
