"""What the build of a wheel asks for (pyproject.toml): the version of the checkout, and the module that holds it."""

import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ROOT = Path(__file__).resolve().parents[1]
_MODULE = "compiler/_version.py"


def version() -> str:
    """Return the version that ci/version.sh prints. Raises CalledProcessError."""
    done = subprocess.run(("sh", "ci/version.sh"), cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


class Hook(BuildHookInterface):
    """Writes the module, which git ignores, for the wheel and for a checkout that is installed as it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the module where its text differs; a program that reads it meanwhile finds the old or the new one."""
        text = f'__version__ = "{self.metadata.version}"\n'
        module = Path(self.root, _MODULE)
        if not module.exists() or module.read_text(encoding="utf-8") != text:
            fresh = module.with_name(f"{module.name}.{os.getpid()}")
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(module)
        build_data["artifacts"].append(f"/{_MODULE}")
