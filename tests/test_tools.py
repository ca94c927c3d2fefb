"""A test without its program is skipped, or fails; the end of a run says how to have what it lacks."""

import pytest

from tests import tools


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
