"""Folders of tests: written, read, and the expectations in them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
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


def expected(path: Path, text: str) -> str:
    """Return the content of a file of expectations; write the text to it first where new results are accepted."""
    if accepting():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return path.read_text("utf-8")
