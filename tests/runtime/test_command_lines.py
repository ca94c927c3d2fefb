"""The command lines of the programs: wrong calls, and what their help says."""

from collections.abc import Callable

import pytest

import device_plugin.cli
import installer.cli
import watcher.cli

Main = Callable[[list[str]], int]

MAINS: dict[str, Main] = {
    "device_plugin": device_plugin.cli.main,
    "installer": installer.cli.main,
    "watcher": watcher.cli.main,
}
WRONG = {
    "device_plugin": ("list more", "list --output yaml", "--rescan-seconds often", "--output json"),
    "installer": ("plan more", "remove --force", "plan --output yaml", "--output json"),
    "watcher": ("--once more", "--once=1"),
}
DEFAULTS = {
    "device_plugin": ("/sys", "/run/kae", "/var/lib/kubelet", "30"),
    "installer": ("/host", "/", "/var/lib/kubelet"),
    "watcher": ("/run/secrets/git", "/run/secrets/signing", "as a pod does"),
}
WORDS = {"device_plugin": ("list",), "installer": ("plan", "status", "retry", "remove"), "watcher": ("--once",)}


@pytest.mark.parametrize(
    ("program", "call"),
    [(name, call) for name in MAINS for call in ("serve", "--no-such-option", "--conf x", "--config", *WRONG[name])],
)
def test_a_wrong_call_ends_with_2_and_the_usage(program: str, call: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        MAINS[program](call.split())

    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert err.startswith(f"usage: python -m {program}")


@pytest.mark.parametrize("program", MAINS)
def test_help_names_every_command_and_every_default(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        MAINS[program](["--help"])

    out = " ".join(capsys.readouterr().out.split())
    assert caught.value.code == 0
    assert [word for word in WORDS[program] if f" {word} " not in out] == []
    for default in ("/etc/kae/config.json", "/run/program", *DEFAULTS[program]):
        assert f"(default: {default})" in out
