"""A test without its program is skipped, or fails; the end of a run says how to have what it lacks."""

import pytest

from tests import tools


def test_a_test_without_its_program_is_skipped_with_the_package_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAE_REQUIRE_TOOLS", raising=False)

    with pytest.raises(pytest.skip.Exception, match=r"^no-such-program is missing: apt-get install a-package$"):
        tools.require("no-such-program", "a-package")


def test_where_tools_are_required_a_test_without_its_program_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAE_REQUIRE_TOOLS", "1")

    with pytest.raises(pytest.fail.Exception, match=r"^no-such-program is missing: apt-get install a-package$"):
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
