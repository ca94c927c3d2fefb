"""Run the command line in a project folder of a test, as a person would."""

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
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
    """Run `kae` in a folder, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warmth.kept():
        try:
            code = cli.main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())


def write(folder: Path, texts: dict[str, str]) -> Path:
    """Write files below a folder."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, by relative path."""
    return {
        str(Path(top, name).relative_to(folder)): Path(top, name).read_bytes()
        for top, _, names in os.walk(folder)
        for name in names
    }


def cases(folder: Path, mark: str) -> Iterator[Path]:
    """Yield the folders that hold a file of this name."""
    return (path.parent for path in sorted(folder.glob(f"*/{mark}")))


def accepting() -> bool:
    """Return whether tests write their expectations anew (ACCEPT=1)."""
    return os.environ.get("ACCEPT") == "1"


__all__: Sequence[str] = ("Answer", "accepting", "cases", "kae", "tree", "write")
