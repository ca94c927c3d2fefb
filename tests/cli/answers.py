"""What `kae` says, by how it ends."""

from pathlib import Path

from tests import in_process


def refused(code: int, folder: Path, *arguments: str) -> str:
    """Return what is said on standard error by a call that ends with a code and prints nothing on standard output."""
    answer = in_process.kae(folder, *arguments)
    assert (answer.code, answer.out) == (code, ""), answer.err
    return answer.err


def told(folder: Path, *arguments: str) -> str:
    """Return what is printed on standard output by a call that ends with 0."""
    answer = in_process.kae(folder, *arguments)
    assert answer.code == 0, answer.err
    return answer.out


def answered(folder: Path, *arguments: str) -> str:
    """Return what is printed on standard output by a call that ends with 0 and says nothing on standard error."""
    answer = in_process.kae(folder, *arguments)
    assert (answer.code, answer.err) == (0, "")
    return answer.out


def warned(folder: Path, *arguments: str) -> str:
    """Return what is said on standard error by a call that ends with 0."""
    answer = in_process.kae(folder, *arguments)
    assert answer.code == 0, answer.err
    return answer.err
