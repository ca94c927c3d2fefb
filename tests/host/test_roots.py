"""The root file systems of these tests are gone when their owner is."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.cluster.local import machine, waiting

_OWNER = """
import sys, time
from pathlib import Path
from tests.host import roots
folder = Path(sys.argv[1])
with roots.watched(folder), roots.opened(folder / "host", Path(sys.argv[2])) as root:
    print(root, flush=True)
    time.sleep(600)
"""


def test_a_root_goes_with_what_is_mounted_in_it_when_its_owner_is_killed(debian: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-c", _OWNER, str(tmp_path), str(debian))
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        subprocess.run(("mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "host/root/opt")), check=True)
        assert len(machine.mounts(tmp_path)) == 2

        owner.send_signal(signal.SIGKILL)

    waiting.until("the keeper", lambda: machine.mounts(tmp_path) == ())
