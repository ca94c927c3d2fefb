"""The codes that have documents, in tests/failures/<code>/project or made by `projects` and `risks`."""

import shutil
from pathlib import Path

from tests.failures import projects, risks

HERE = Path(__file__).parent
CASES = sorted({path.parent.name for path in HERE.glob("*/project")} | projects.MADE.keys() | risks.CHANGES.keys())


def prepared(code: str, folder: Path) -> Path:
    """Make the project of a code in a folder, which is not there yet, and return the folder."""
    if code in projects.MADE:
        folder.mkdir()
        projects.MADE[code](folder)
    elif code in risks.CHANGES:
        folder.mkdir()
        risks.prepare(code, folder)
    else:
        shutil.copytree(HERE / code / "project", folder)
    return folder
