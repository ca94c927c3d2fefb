"""The command `kae`, run in the process of the test: an eighth of the time of a process of its own.

A test starts a process only where a shell, a signal, an exit, a closed stream or an import is the matter.
"""

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

from compiler import cli
from tests import warmth


@dataclass(frozen=True)
class Answer:
    """The result of a call of `kae`."""

    code: int
    out: str
    err: str


def kae(folder: Path, *arguments: str) -> Answer:
    """Run `kae` in a project folder, as a person would."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warmth.kept():
        try:
            code = cli.main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())
