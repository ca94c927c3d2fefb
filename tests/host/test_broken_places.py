"""A place of a host that breaks under an installer neither hangs it nor makes it lie, and it recovers by itself."""

import subprocess
import sys

from tests import fuse, tools


def test_an_installer_outlives_what_breaks_under_it() -> None:
    tools.require_cluster(fuse.obstacles())

    # A process of its own, whose mounts and log are apart. `make places` takes more.
    command = (sys.executable, "-m", "tests.property.places", "--count", "10", "--seed", "0")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 0, done.stdout
