"""A test without its program is skipped, or fails; the end of a run says how to have what it lacks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import quick, tools

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("required", "outcome"), [("0", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_a_test_without_its_program_is_skipped_or_fails_and_names_the_package(
    required: str, outcome: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAE_REQUIRE_TOOLS", required)

    with pytest.raises(outcome, match=r"^no-such-program is missing: apt-get install a-package$"):
        tools.require("no-such-program", "a-package")


def test_the_summary_has_one_command_for_all_that_it_installs() -> None:
    reasons = [
        "zsh is missing: apt-get install zsh",
        "sshd is missing: apt-get install openssh-server",
        "zsh is missing: apt-get install zsh",
        "Root is needed: it makes device nodes.",
    ]

    assert list(tools.summary(reasons)) == [
        "3 skipped without sshd, zsh: apt-get install openssh-server zsh",
        "1 skipped: Root is needed: it makes device nodes.",
    ]


def test_ci_installs_what_any_test_of_the_gate_asks_for() -> None:
    (installed,) = re.findall(r"    install (fish .*)", (ROOT / ".ci/run").read_text())
    asked = {
        package
        for path in (ROOT / "tests").rglob("*.py")
        if path.relative_to(ROOT).parts[1] not in (*quick.APART, "test_tools.py")
        for package in re.findall(r'tools\.require\("[^"]+", "([^"]+)"\)', path.read_text())
    }

    assert asked >= {"kmod", "openssl"}
    assert asked <= {*installed.split(), "linux-headers-generic"}


@pytest.mark.long
def test_a_run_ends_with_what_it_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAE_REQUIRE_TOOLS", raising=False)
    test = tmp_path / "test_a.py"
    test.write_text("from tests import tools\n\ndef test_a(): tools.require('no-such-program', 'a-package')\n")

    options = ("-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", str(test))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=ROOT, capture_output=True, check=False, text=True
    )

    assert "\n1 skipped without no-such-program: apt-get install a-package\n" in done.stdout
