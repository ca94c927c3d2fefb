"""The git of the user, asked about the repository around the current folder. Light enough to import in every call."""

import os
import subprocess
from collections.abc import Mapping

from compiler import errors, wording


def answer(*arguments: str, given: str = "") -> bytes:
    """Return the answer of git to arguments and standard input. Raises WorldError with its words."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and git takes no option from what it is given
            ("git", *map(os.fsencode, arguments)),  # noqa: S607 - the git of the user
            input=os.fsencode(given),
            capture_output=True,
            check=False,
            env=environment(),
        )
    except OSError as error:
        raise errors.WorldError(f"git cannot be run: {error.strerror}.", hint="Install git.") from error
    if done.returncode:
        said = wording.cut(done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")) or "git failed"
        raise errors.WorldError(f"git says: {said}", hint="Older versions of the documents come from a git repository.")
    return done.stdout


def environment() -> Mapping[str, str]:
    """Return an environment in which git speaks English and locks nothing that it only reads."""
    return {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
