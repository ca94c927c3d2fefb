"""What `kae` says where it does not do what it was asked for."""

from pathlib import Path

from tests import in_process


def refused(code: int, folder: Path, *arguments: str) -> str:
    """Return what is said on standard error by a call that ends with a code and prints nothing on standard output."""
    answer = in_process.kae(folder, *arguments)
    assert (answer.code, answer.out) == (code, ""), answer.err
    return answer.err
