"""Links of a host's root: the installer comes where a process comes that entered it by chroot(2)."""

import functools
import os
from pathlib import Path

import pytest

from installer.host import root
from tests import effort
from tests.installer import linktrees


@pytest.mark.parametrize("seed", range(effort.examples(gate=10, long=500)))
def test_a_path_leads_where_it_does_in_a_chroot(seed: int, tmp_path: Path) -> None:
    draw, top = linktrees.draw(seed), tmp_path / "host"
    top.mkdir()
    linktrees.grow(draw, top)
    for _ in range(8):
        path = f"/{linktrees.words(draw)}"
        assert linktrees.came_to(functools.partial(root.opened, top, path)) == in_chroot(top, path), path


def in_chroot(top: Path, path: str) -> tuple[int, int] | int:
    """Return what stat(2) says of a path to a process that entered the root by chroot(2)."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.chroot(top)
            try:
                said = Path(path).stat()
                answer = f"{said.st_dev} {said.st_ino}"
            except OSError as error:
                answer = str(error.errno)
            os.write(writer, answer.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        numbers = tuple(map(int, answers.read().split()))
    os.waitpid(child, 0)
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
