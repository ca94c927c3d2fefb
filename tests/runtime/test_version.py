"""Each program says its version."""

import importlib

import pytest


@pytest.mark.parametrize(
    ("package", "program"),
    [("installer", "kae-driver-installer"), ("device_plugin", "kae-device-plugin"), ("watcher", "kae-watcher")],
)
def test_a_program_says_its_version_and_that_of_its_configs(
    package: str, program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAE_VERSION", "7.8.9")

    with pytest.raises(SystemExit) as caught:
        importlib.import_module(f"{package}.cli").main(["--version"])

    assert (caught.value.code, capsys.readouterr().out) == (0, f"{program} 7.8.9 (config version 2)\n")
