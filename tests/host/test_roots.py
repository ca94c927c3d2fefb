"""The root file systems of these tests: each one's own, and gone when their owner is."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.cluster.local import machine, waiting
from tests.host import roots

_OWNER = """
import sys, time
from pathlib import Path
from tests.host import roots
folder = Path(sys.argv[1])
with roots.watched(folder), roots.opened(folder / "host", Path(sys.argv[2])) as root:
    print(root, flush=True)
    time.sleep(600)
"""


def test_what_is_written_in_a_root_is_in_no_other(debian: Path, tmp_path: Path) -> None:
    with roots.opened(tmp_path / "one", debian) as one, roots.opened(tmp_path / "two", debian) as two:
        (one / "etc/notes").write_text("one")

        assert (roots.layer(tmp_path / "one") / "etc/notes").read_text() == "one"
        assert not (two / "etc/notes").exists()
        assert not (debian / "etc/notes").exists()


def test_a_root_goes_with_what_is_mounted_in_it(debian: Path, tmp_path: Path) -> None:
    with roots.opened(tmp_path / "host", debian) as root:
        subprocess.run(("mount", "-t", "tmpfs", "tmpfs", str(root / "opt")), check=True)
        assert len(machine.mounts(tmp_path)) == 2

    assert machine.mounts(tmp_path) == ()


def test_a_root_goes_when_its_owner_is_killed(debian: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-c", _OWNER, str(tmp_path), str(debian))
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        assert len(machine.mounts(tmp_path)) == 1

        owner.send_signal(signal.SIGKILL)

    waiting.until("the keeper", lambda: machine.mounts(tmp_path) == (), timeout_s=20)
