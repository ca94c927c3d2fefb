"""`kae diff` and `kae report` print no password of a URL, whatever the format: a comment is posted for all to read."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import in_process, revisions
from tests.cli.test_diff import edit, rollout

__all__ = ("rollout",)

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


@pytest.fixture
def revealing(rollout: Path) -> Path:
    """Return a project whose last commit holds passwords: in a value, in a list and where values are cut."""
    edit(
        rollout,
        (
            "  driver:\n",
            "  driver:\n    env:\n"
            f"      - {{name: HTTP_PROXY, value: 'http://bob:{HIDDEN}@proxy.example.com:3128'}}\n"
            f"      - {{name: HTTPS_PROXY, value: 'http://{FAR}:{HIDDEN * 3}@proxy.example.com:3128'}}\n",
        ),
    )
    revisions.commit(rollout)
    return rollout


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_whole", [True, False], ids=["a list", "a value"])
def test_no_format_of_a_change_holds_a_password(revealing: Path, way: str, *, is_whole: bool) -> None:
    policy = revealing / "policies/tls.yaml"
    lines = policy.read_text().splitlines(keepends=True)
    left_out = ("env:", "_PROXY") if is_whole else ("HTTP_PROXY",)
    policy.write_text("".join(line for line in lines if not any(part in line for part in left_out)))

    answer = in_process.kae(revealing, *WAYS[way])

    assert answer.code == 0, answer.err
    page = revealing / "page.html"
    told = answer.out + answer.err + (page.read_text("utf-8") if page.exists() else "")
    assert HIDDEN not in told
    assert "bob" not in told
    assert "***@proxy" in told


def test_the_fields_beside_a_password_are_still_told(revealing: Path) -> None:
    edit(
        revealing, ("proxy.example.com:3128'}\n      - {name: HTTPS", "other.example.com:3128'}\n      - {name: HTTPS")
    )

    (document,) = json.loads(in_process.kae(revealing, "diff", "-o", "json").out)["intent"]

    (field,) = document["fields"]
    assert field["path"] == "spec.driver.env[HTTP_PROXY].value"
    assert (field["old"], field["new"]) == (
        "http://************@proxy.example.com:3128",
        "http://************@other.example.com:3128",
    )
