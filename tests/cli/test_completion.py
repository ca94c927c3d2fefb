"""`kae completion`: scripts that their shells can read."""

import subprocess
from pathlib import Path

import pytest

from tests import project


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_every_shell_gets_a_script_that_knows_the_commands(shell: str, tmp_path: Path) -> None:
    answer = project.kae(tmp_path, "completion", shell)

    assert (answer.code, answer.err) == (0, "")
    for word in ("compile", "explain", "inventory", "kae"):
        assert word in answer.out


def test_bash_reads_its_script(tmp_path: Path) -> None:
    script = project.kae(tmp_path, "completion", "bash").out

    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False, timeout=30)

    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_a_command_that_was_begun(tmp_path: Path) -> None:
    script = project.kae(tmp_path, "completion", "bash").out
    ask = 'COMP_WORDS=(kae comp); COMP_CWORD=1; COMP_LINE="kae comp"; _shtab_kae; echo "${COMPREPLY[*]}"'

    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{ask}"], text=True, capture_output=True, check=False, timeout=30
    )

    assert sorted(done.stdout.split()) == ["compile", "completion"]


def test_another_shell_is_a_matter_of_usage(tmp_path: Path) -> None:
    assert project.kae(tmp_path, "completion", "fish").code == 2
