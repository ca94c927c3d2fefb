"""A fork answers as the real program does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import project
from tests.kae_forks import program

CALLS = (
    'kae --version && kae nope; echo "$?"',
    'kae plan -C nowhere; echo "$?"',
    "kae init --cluster east && kae compile --check; echo $?; kae compile && cat output/east/kustomization.yaml",
    "kae init; KUBECONFIG=$PWD/none kae inventory --kubeconfig none/none; echo $?",
    "kae completion bash | head -1",
    'kae rule | wc -l; kae init "a b$IFS" 2>&1 | sort; FORCE_COLOR=1 kae -C "a b$IFS" compile nothing; true',
    "kae init >/dev/null; printf '{}' | kae inventory --cluster default; kae plan </dev/null >report 2>&1; cat report",
)


def answer(folder: Path, line: str, text: str) -> tuple[str, str]:
    """Return what a line of the shell prints with this text of `kae`."""
    project.write(folder, {"bin/kae": text, "work/.keep": ""})
    (folder / "bin/kae").chmod(0o755)
    environment = {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(program.ROOT),
        "HOME": "/nonexistent",
    }
    done = subprocess.run(
        ("bash", "-c", line),
        cwd=folder / "work",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.replace(str(folder), ""), done.stderr.replace(str(folder), "")


@pytest.mark.parametrize("line", CALLS)
def test_a_fork_prints_and_ends_as_the_real_program_does(tmp_path: Path, line: str) -> None:
    real = f'#!/bin/sh\nexec "{sys.executable}" -m compiler "$@"\n'

    assert answer(tmp_path / "fork", line, program.text()) == answer(tmp_path / "real", line, real)
