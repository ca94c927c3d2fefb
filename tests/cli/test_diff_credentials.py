"""`kae diff` and `kae report` print no password of a URL, whatever the format: a comment is posted for all to read."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import in_process, revisions
from tests.cli import diffs

HIDDEN = "s3cretpw"
FAR = "x" * 60
"""A host so long that the value is cut behind the password's beginning."""

WAYS: dict[str, Sequence[str]] = {
    "text": ("diff",),
    "markdown": ("diff", "-o", "markdown"),
    "json": ("diff", "-o", "json"),
    "yaml": ("diff", "-o", "yaml"),
    "github": ("diff", "--format", "github"),
    "sarif": ("diff", "--format", "sarif"),
    "findings in json": ("diff", "--format", "json"),
    "report page": ("report", "--html", "page.html", "HEAD"),
}


@pytest.fixture(scope="module")
def committed(committed_rollout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose last commit holds passwords: in a value, in a list and where values are cut."""
    folder = shutil.copytree(committed_rollout, tmp_path_factory.mktemp("revealing") / "fleet")
    env = (
        f"      - {{name: HTTP_PROXY, value: 'http://bob:{HIDDEN}@proxy.example.com:3128'}}\n"
        f"      - {{name: HTTPS_PROXY, value: 'http://{FAR}:{HIDDEN * 3}@proxy.example.com:3128'}}\n"
    )
    diffs.edit(folder, ("  driver:\n", f"  driver:\n    env:\n{env}"))
    revisions.commit(folder)
    return folder


@pytest.fixture
def revealing(committed: Path, tmp_path: Path) -> Path:
    """The same, which may be changed."""
    return shutil.copytree(committed, tmp_path / "fleet")


@pytest.fixture(scope="module", params=[("env:", "_PROXY"), ("HTTP_PROXY",)], ids=["a list", "a value"])
def changed(request: pytest.FixtureRequest, committed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without the lines of a list or of a value."""
    folder = shutil.copytree(committed, tmp_path_factory.mktemp("changed") / "fleet")
    policy = folder / "policies/tls.yaml"
    lines = policy.read_text().splitlines(keepends=True)
    policy.write_text("".join(line for line in lines if not any(part in line for part in request.param)))
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_no_format_of_a_change_holds_a_password(changed: Path, way: str) -> None:
    answer = in_process.kae(changed, *WAYS[way])

    assert answer.code == 0, answer.err
    told = answer.out + answer.err + ((changed / "page.html").read_text("utf-8") if way == "report page" else "")
    assert HIDDEN not in told
    assert "bob" not in told
    assert "***@proxy" in told


def test_the_fields_beside_a_password_are_still_told(revealing: Path) -> None:
    behind = "'}\n      - {name: HTTPS"
    diffs.edit(revealing, (f"proxy.example.com:3128{behind}", f"other.example.com:3128{behind}"))

    (document,) = diffs.data(revealing)["intent"]

    (field,) = document["fields"]
    assert field["path"] == "spec.driver.env[HTTP_PROXY].value"
    hidden = "http://************@{}.example.com:3128"
    assert (field["old"], field["new"]) == (hidden.format("proxy"), hidden.format("other"))
