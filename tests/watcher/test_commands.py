"""Commands get an environment and a umask of their own, and none is started once the program is ending."""

import os
import threading

import pytest

from runtime import process
from watcher.git import commands

LIMITS = process.Limits(timeout_s=20)


def test_a_command_sees_nothing_of_our_own_environment_but_its_path_and_proxies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "GIT_DIR": "/x",
        "SSH_AUTH_SOCK": "/x",
        "LANG": "de_DE.UTF-8",
        "https_proxy": "http://p",
    }.items():
        monkeypatch.setenv(name, value)

    seen = commands.run(("env",), {"GIVEN": "1"}, LIMITS).output.decode().split()

    named = {line.partition("=")[0] for line in seen}
    assert {"PATH", "https_proxy", "GIVEN", "LC_ALL", "TZ"} <= named
    assert not named & {"GIT_DIR", "SSH_AUTH_SOCK", "LANG", "HOME"}


def test_a_command_makes_files_by_a_umask_of_its_own() -> None:
    old = os.umask(0o777)
    try:
        said = commands.run(("sh", "-c", "umask"), {}, LIMITS).output
    finally:
        os.umask(old)

    assert said == b"0022\n"


def test_no_command_is_started_after_a_stop() -> None:
    stop = threading.Event()
    stop.set()

    with pytest.raises(process.Cancelled, match=r"^'touch' was not started, because the program is ending\.$"):
        commands.run(("touch", "never"), {}, process.Limits(timeout_s=20, stop=stop))
