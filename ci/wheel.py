"""What the build of a wheel asks for (pyproject.toml): the version of the checkout, and the modules that it makes.

`python ci/wheel.py` makes the module with the code of the templates alone.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ROOT = Path(__file__).resolve().parents[1]
_VERSION = "compiler/_version.py"
_TEMPLATES = "compiler/_templates.py"


def version() -> str:
    """Return the version that ci/version.sh prints. Raises CalledProcessError."""
    done = subprocess.run(("sh", "ci/version.sh"), cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def templates() -> str:
    """Return the module with the code of the templates."""
    sys.path.insert(0, str(_ROOT))
    from compiler.project import package_data  # noqa: PLC0415
    from compiler.rendering import template_code  # noqa: PLC0415

    return template_code.source(package_data.templates(), package_data.code_digest())


def write(module: str, text: str) -> None:
    """Write a module, which git ignores, where its text differs: whole, as others may be reading it."""
    path = _ROOT / module
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)


class Hook(BuildHookInterface):
    """Writes the modules for the wheel and for a checkout that is installed as it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them, and have the wheel hold them."""
        write(_VERSION, f'__version__ = "{self.metadata.version}"\n')
        write(_TEMPLATES, templates())
        build_data["artifacts"] += [f"/{_VERSION}", f"/{_TEMPLATES}"]


if __name__ == "__main__":
    write(_TEMPLATES, templates())
