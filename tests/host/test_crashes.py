"""Kills while packages are installed, upgraded and removed by real rpm: `python -m pytest -rP` prints the matrix."""

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from runtime import driver_config
from tests.host import repositories, roots
from tests.installer import crashes, machines

_PACKAGES = driver_config.Source(
    packages=driver_config.Packages(
        names=("kae-driver-${DRIVER_VERSION}-1", "kae-openssl-${DRIVER_VERSION}-1"),
        repositories=(repositories.BOTH, repositories.ODD),
    )
)


@pytest.mark.parametrize("operation", crashes.OPERATIONS)
def test_a_host_ends_with_a_whole_driver_wherever_the_installer_was_killed(
    debian: Path, stocked: Path, shelf: Path, tmp_path: Path, operation: str
) -> None:
    def carried_out(case: crashes.Case) -> crashes.Result:
        folder = Path(tempfile.mkdtemp(dir=shelf))
        images = Path(tempfile.mkdtemp(dir=tmp_path))
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            root = stack.enter_context(roots.opened(folder, stocked, debian))
            machine = machines.Machine(root, chroot=True, mknod=True)
            return crashes.result(crashes.Bench(machine, images, case, _PACKAGES))

    results = crashes.matrix(
        lambda step: list(crashes.cases("packages", operation, step, crashes.HALF)),
        lambda batch: list(map(carried_out, batch)),
    )

    sys.stdout.write("\n".join(crashes.table(results)))
    assert [f"{made.case}: {made.wrong}" for made in results if made.wrong] == []
    assert results
