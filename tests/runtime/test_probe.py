"""The liveness probe believes a young beat, and says what it does not believe."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime import probe, state

ROOT = Path(__file__).parents[2]


def beaten(folder: Path, seconds_ago: float) -> list[str]:
    """The arguments for a folder whose last beat is so old."""
    (folder / "alive").write_text(f"{time.monotonic() - seconds_ago:.3f}\n")
    return ["alive", "--program-dir", str(folder)]


@pytest.mark.parametrize(("age", "options"), [(0.1, []), (40, []), (100, ["--seconds", "200"])])
def test_a_young_beat_is_life(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], age: float, options: list[str]
) -> None:
    assert probe.main(beaten(tmp_path, age) + options) == 0

    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("age", "options", "said"),
    [
        (46, [], "The last beat is 46 seconds old, 45 are allowed.\n"),
        (11, ["--seconds", "10"], "The last beat is 11 seconds old, 10 are allowed.\n"),
        (-1000, [], "The last beat is -1000 seconds old, 45 are allowed.\n"),
    ],
)
def test_an_old_beat_and_one_of_another_boot_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], age: float, options: list[str], said: str
) -> None:
    assert probe.main(beaten(tmp_path, age) + options) == 1

    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("beat", "said"), [(None, "cannot be read: No such file or directory"), ("soon", "is no number")]
)
def test_what_is_no_beat_is_not_life(
    beat: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if beat is not None:
        (tmp_path / "alive").write_text(beat)

    assert probe.main(["alive", "--program-dir", str(tmp_path)]) == 1

    assert capsys.readouterr().out == f"The last beat in '{tmp_path}/alive' {said}.\n"


@pytest.mark.parametrize(
    "call",
    ["", "dead", "alive --seconds", "alive --seconds soon", "alive --second 1", "alive --seconds 1 --seconds 2"],
)
def test_a_wrong_call_says_how_to_call(capsys: pytest.CaptureFixture[str], call: str) -> None:
    assert probe.main(call.split()) == 2

    assert capsys.readouterr().out.startswith("usage: python -m runtime.probe alive")


def test_the_kubelets_command_sees_the_beat_of_another_process(tmp_path: Path) -> None:
    state.ProgramDir(tmp_path)
    command = [sys.executable, "-m", "runtime.probe", "alive", "--program-dir", str(tmp_path)]

    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)

    assert found.stdout + found.stderr == ""


def test_the_probe_loads_no_module_that_an_idle_interpreter_has_not() -> None:
    script = "import sys; before = {*sys.modules, 'runtime'}; import runtime.probe; print(*{*sys.modules} - before)"
    command = [sys.executable, "-c", script]

    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)

    assert found.stdout == "runtime.probe\n"
