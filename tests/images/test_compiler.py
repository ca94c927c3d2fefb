"""The image of kae for jobs: it reviews a pull request as any user, in a clone that another one made."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import revisions
from tests.images import inputs, stores

IMAGE = stores.named("kae-compiler")
CANARY = ("version: 2.2.0\n        - name: half", "version: 2.3.0\n        - name: half")
"""Another version for a wave of the example, which has one node."""

IN_A_JOB = ("--tmpfs=/tmp:rw,mode=1777",)


@pytest.fixture(scope="module")
def compiler() -> Iterator[stores.Store]:
    with stores.opened() as store:
        store.build_compiler("1")
        yield store


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with a change in its last commit, owned by root and open to all, as a runner makes it."""
    folder = shutil.copytree(inputs.ROOT / "docs/examples/rollout", tmp_path / "fleet")
    revisions.commit(folder)
    policy = folder / "policies/tls.yaml"
    policy.write_text(policy.read_text().replace(*CANARY))
    revisions.commit(folder)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return folder


def test_the_image_is_of_no_user_with_rights(compiler: stores.Store) -> None:
    image = compiler.inspected(IMAGE)

    assert image["Config"]["User"] == "65532:65532"
    assert image["Config"]["Entrypoint"] == ["kae"]
    assert image["Labels"]["org.opencontainers.image.title"] == "kae-compiler"
    assert "PIP_" not in json.dumps([image["Config"], image["History"]])


def test_every_module_is_compiled_for_good(compiler: stores.Store) -> None:
    assert compiler.uncompiled(IMAGE) == []


def test_the_image_holds_its_licence_and_that_of_every_package(compiler: stores.Store) -> None:
    held = compiler.licences(IMAGE)

    lock = (inputs.ROOT / "templates/init/ci/requirements.txt").read_text("utf-8")
    for name in ("pydantic", "jinja2", "google-re2"):
        assert f"\n{name}==" in lock
        assert re.search(rf"^=== {name} ", held, re.MULTILINE | re.IGNORECASE)
    # A package of wheels without it has at least its authors.
    assert re.findall(r"^=== (\S+) .*\n\nIts package holds no licence text. Authors: .*@", held, re.MULTILINE) == [
        "jsonschema_rs"
    ]


@pytest.mark.parametrize("user", [(), ("--user=1234567:1234567", "--passwd=false")])
def test_a_job_in_the_image_reviews_a_pull_request(compiler: stores.Store, clone: Path, user: tuple[str, ...]) -> None:
    # Nothing of the pull request is imported, whatever its name.
    (clone / "compiler").mkdir()
    (clone / "compiler/__init__.py").write_text("raise SystemExit('not kae')\n")
    (clone / "json.py").write_text("raise SystemExit('not json')\n")
    options = (*IN_A_JOB, f"--workdir={clone}", f"--env=KAE_PROJECT={clone}", *user)

    done = compiler.run(IMAGE, "/opt/kae/ci/review.sh", "HEAD~1", folder=clone, options=options)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (clone / "review/comment.md").read_text().startswith("### 1 of 24 nodes in cluster east is affected\n")
    assert (clone / "review/fleet.html").exists()


def test_the_check_runs_in_the_image(compiler: stores.Store, clone: Path) -> None:
    options = (*IN_A_JOB, f"--workdir={clone}", f"--env=KAE_PROJECT={clone}")

    done = compiler.run(IMAGE, "/opt/kae/ci/check.sh", folder=clone, options=options)

    assert done.returncode == 4, done.stdout + done.stderr
    assert "Run 'kae compile', and commit output/." in done.stderr
