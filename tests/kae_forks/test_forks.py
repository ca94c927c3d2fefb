"""A fork answers as the real program does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import project
from tests.kae_forks import program

pytestmark = pytest.mark.long

CALLS = """
kae --version && kae nope 'a b$IFS'; echo "$?"
printf '{}' | kae inventory --cluster default; echo "$?"
kae plan -C nowhere </dev/null >report 2>&1; cat report
"""


def answer(folder: Path, text: str) -> tuple[str, str]:
    project.write(folder, {"bin/kae": text, "work/.keep": ""})
    (folder / "bin/kae").chmod(0o755)
    environment = {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(program.ROOT),
        "HOME": "/nonexistent",
    }
    done = subprocess.run(
        ("bash", "-c", CALLS), cwd=folder / "work", env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.replace(str(folder), ""), done.stderr.replace(str(folder), "")


def test_a_fork_prints_and_ends_as_the_real_program_does(tmp_path: Path) -> None:
    real = f'#!/bin/sh\nexec "{sys.executable}" -m compiler "$@"\n'

    assert answer(tmp_path / "fork", program.text()) == answer(tmp_path / "real", real)
