"""What a reader does with the commands of a page: copies a fleet, and runs them in a shell."""

import os
import shutil
import subprocess
from pathlib import Path

from tests import project
from tests.documentation.pages import ROOT
from tests.kae_forks import program

ROLLOUT = ROOT / "docs/examples/rollout"
"""The example of docs/rollouts.md."""


def run(folder: Path, lines: str) -> str:
    """Run command lines in a shell, with `kae` as installed and a neutral git identity, and return the output."""
    programs = project.write(folder.parent / "bin", {"kae": program.text()})
    (programs / "kae").chmod(0o755)
    done = subprocess.run(
        ["sh", "-ec", lines],
        cwd=folder,
        env={
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            **{
                f"GIT_{who}_{what}": value
                for who in ("AUTHOR", "COMMITTER")
                for what, value in (("NAME", "somebody"), ("EMAIL", "somebody@example.com"))
            },
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def copy_of_the_fleet(folder: Path) -> Path:
    """The example fleet of this repository, with its output."""
    for name in ("policies", "inventory", "output"):
        shutil.copytree(ROOT / name, folder / name)
    return folder
