"""PyYAML without libyaml: the compiler says so, and reads nothing in another way."""

import subprocess
import sys
from pathlib import Path

from tests import project
from tests.failures import projects

_PROGRAM = """
import sys
sys.modules["yaml._yaml"] = None
from compiler import cli
for words in sys.argv[1:]:
    print(cli.main(words.split()))
"""


def test_without_libyaml_commands_say_so_and_write_nothing(tmp_path: Path, repository_root: Path) -> None:
    folder = project.write(tmp_path, {"policies/tls.yaml": projects.POLICY, "policies/east.yaml": projects.CLUSTER})
    before = project.tree(folder)

    done = subprocess.run(
        (sys.executable, "-B", "-c", _PROGRAM, "compile", "plan", "bump tls --version 2.3.0"),
        cwd=folder,
        env={"PYTHONPATH": str(repository_root)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )

    said = (
        "kae: documents cannot be read: PyYAML is installed without libyaml.\n"
        "hint: Install a wheel of it: pip install --force-reinstall --only-binary pyyaml pyyaml.\n"
    )
    assert done.stdout == "3\n3\n3\n"
    assert done.stderr == 3 * said
    assert project.tree(folder) == before
