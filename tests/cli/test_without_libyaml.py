"""PyYAML without libyaml: the compiler says so, and reads nothing in another way."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import project
from tests.failures import projects

_PROGRAM = "import sys; sys.modules['yaml._yaml'] = None; from compiler import cli; sys.exit(cli.main())"


@pytest.mark.parametrize("command", [("compile",), ("plan",), ("bump", "tls", "--version", "2.3.0")], ids=" ".join)
def test_without_libyaml_a_command_says_so_and_writes_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    folder = project.write(tmp_path, {"policies/tls.yaml": projects.POLICY, "policies/east.yaml": projects.CLUSTER})
    before = project.tree(folder)

    done = subprocess.run(
        (sys.executable, "-B", "-c", _PROGRAM, *command, "-C", str(folder)),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "kae: documents cannot be read: PyYAML is installed without libyaml.\n"
        "hint: Install a wheel of it: pip install --force-reinstall --only-binary pyyaml pyyaml.\n"
    )
    assert project.tree(folder) == before
