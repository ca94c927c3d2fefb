"""The table of a release: its images are the defaults of the documents that its compiler reads."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from compiler import release
from tests import in_process, revisions
from tests.images import inputs

pytestmark = pytest.mark.long

REGISTRY = "registry.example.com/kae"
SITE = "https://kae.example.com/"
DIGESTS = {name: f"sha256:{number:064x}" for number, name in enumerate(release.DIGESTS, 1)}


def fill(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "ci/release_table.py", *words)
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def checkout(repository_root: Path, tmp_path: Path) -> Path:
    """A checkout of its own, outside of every repository."""
    folder = tmp_path / "checkout"
    for name in ("ci", "compiler", "runtime", "schemas", "templates"):
        shutil.copytree(repository_root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def released(checkout: Path) -> Path:
    done = fill(checkout, REGISTRY, SITE, *(f"{name}={digest}" for name, digest in DIGESTS.items()))
    assert done.returncode == 0, done.stderr
    write = ("-m", "compiler", "schema", "--write", "schemas")
    subprocess.run((sys.executable, *write), cwd=checkout, timeout=60, check=True)
    return checkout


def test_the_table_has_every_image_of_a_program() -> None:
    assert set(release.DIGESTS) == set(inputs.folders())


def test_a_checkout_between_releases_names_no_image_of_one() -> None:
    assert (release.REGISTRY, release.SITE, set(release.DIGESTS.values())) == ("", "", {""})


def test_documents_that_name_no_image_get_those_of_the_release(released: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    (folder / "policies").mkdir(parents=True)
    cluster = {"enabled": True, "repository": {"url": "https://git.example.com/a.git"}, "secretName": "git"}
    documents = (
        ("KAECluster", "east", {"watcher": cluster, "kubernetesVersion": "1.30"}),
        ("KAEPolicy", "tls", {"operator": {"enabledHPRE": True}, "driver": {"version": "2.3.0"}}),
    )
    for kind, name, spec in documents:
        document = {"kind": kind, "apiVersion": "device.openfuyao.com/v1alpha1"}
        text = yaml.safe_dump(document | {"metadata": {"name": name}, "spec": spec})
        (folder / f"policies/{name}.yaml").write_text(text)

    environment = os.environ | {"PYTHONPATH": str(released)}
    subprocess.run((sys.executable, "-m", "compiler", "compile"), cwd=folder, env=environment, timeout=60, check=True)

    images = (folder / "output/east/images.txt").read_text().split()
    assert [image for image in images if image.startswith(REGISTRY)] == [
        f"{REGISTRY}/kae-device-plugin@{DIGESTS['kae-device-plugin']}",
        f"{REGISTRY}/kae-driver-installer:2.3.0",
        f"{REGISTRY}/kae-watcher@{DIGESTS['kae-watcher']}",
    ]


def test_findings_of_a_release_link_to_their_page_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/a.yaml").write_text("a: 1\n---\na: 1\n")

    between = in_process.kae(tmp_path, "compile").err
    monkeypatch.setattr(release, "SITE", SITE)
    text = in_process.kae(tmp_path, "compile").err
    sarif = json.loads(in_process.kae(tmp_path, "compile", "--format", "sarif").out)

    (rule,) = sarif["runs"][0]["tool"]["driver"]["rules"]
    code = rule["id"]
    page = f"{SITE}findings/#{code}"
    assert (rule["helpUri"], SITE in between) == (page, False)
    assert text.count(f"[{code}]") == 2
    assert text.count(f"\n  more: {page}\n") == 1
    assert in_process.kae(tmp_path, "rule", code).out.endswith(f"\nMore: {page}\n")
    assert f"\n## {code}\n" in (inputs.ROOT / "docs/findings.md").read_text("utf-8")


def test_a_new_repository_names_no_device_plugin_and_so_takes_that_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "REGISTRY", REGISTRY)

    answer = in_process.kae(tmp_path, "init", "fleet")

    policy = yaml.safe_load((tmp_path / "fleet/policies/policy.yaml").read_text())
    assert policy["spec"]["devicePlugin"] == {}
    assert policy["spec"]["driver"]["repository"]
    assert "Set the registry and the version of your image with a driver in policies/policy.yaml." in answer.out


def test_a_named_registry_holds_all_images_of_a_new_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "REGISTRY", REGISTRY)

    in_process.kae(tmp_path, "init", "fleet", "--registry", "registry.example.com/mine")

    policy = (tmp_path / "fleet/policies/policy.yaml").read_text()
    assert policy.count('repository: "registry.example.com/mine"') == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([f"kae-watcher={DIGESTS['kae-watcher']}"], "An image has no digest."),
        ([f"kae-wacher={DIGESTS['kae-watcher']}"], 'has 0 lines like ^( +"kae\\-wacher": )'),
        (["kae-watcher=latest"], "'kae-watcher=latest' is not an image and its digest."),
    ],
)
def test_a_table_that_would_not_be_whole_is_not_written(words: list[str], said: str, checkout: Path) -> None:
    before = (checkout / "compiler/release.py").read_text()

    done = fill(checkout, REGISTRY, SITE, *words)

    assert done.returncode == 1
    assert said in done.stderr
    assert (checkout / "compiler/release.py").read_text() == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "environment", "said"),
    [
        ("", {}, ""),
        ("", {"GITHUB_REF_NAME": "v9.8.7"}, ""),
        ("another line", {"KAE_VERSION": "9.8.7"}, "'9.8.7+dirty' is no release"),
        ("", {"GITHUB_REF_NAME": "v9.8.7rc1"}, "the tag is 'v9.8.7rc1', and the version 9.8.7"),
    ],
)
def test_a_release_is_made_of_the_tag_that_started_it_alone(
    change: str, environment: dict[str, str], said: str, checkout: Path
) -> None:
    revisions.commit(checkout)
    revisions.git(checkout, "tag", "v9.8.7")
    if change:
        (checkout / "compiler/release.py").write_text(change)
    own = {"PATH": os.environ["PATH"], "REGISTRY": REGISTRY} | environment

    done = subprocess.run(
        ("ci/release.sh",), cwd=checkout, env=own, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, bool(done.stderr)) == ((1, True) if said else (0, False))
    assert said in done.stderr
    assert not change or (checkout / "compiler/release.py").read_text() == change
