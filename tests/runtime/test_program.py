"""Each program says its version, and its last word is one line, within what the kubelet keeps."""

import importlib
from pathlib import Path

import pytest

from runtime import program


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file that the kubelet mounts, with an earlier word in it."""
    found = tmp_path / "termination-log"
    found.write_text("an earlier word, which was a longer one")
    return found


def test_the_reason_is_written_as_one_line(file: Path) -> None:
    program.terminate("Port 9510\nis taken.", file)

    assert file.read_text() == "Port 9510 is taken."


def test_a_long_reason_keeps_its_start(file: Path) -> None:
    program.terminate("x" * 5000, file)

    assert file.read_bytes() == b"x" * 4096


def test_no_character_is_cut_in_half(file: Path) -> None:
    program.terminate("x" + "é" * 3000, file)

    assert file.read_text("utf-8") == "x" + "é" * 2047


def test_a_reason_that_is_no_text_is_written_as_far_as_it_goes(file: Path) -> None:
    program.terminate("bad name \udcff", file)

    assert file.read_text() == "bad name ?"


def test_outside_of_a_container_nothing_is_left_behind(tmp_path: Path) -> None:
    program.terminate("It ends.", tmp_path / "termination-log")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_hides_no_failure(tmp_path: Path) -> None:
    program.terminate("It ends.", tmp_path)

    assert list(tmp_path.iterdir()) == []


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
