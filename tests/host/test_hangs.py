"""Files of dead servers, which are real ones here: a tenant or a mount may put one into the installer's way."""

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from installer.drain import device_holders
from installer.host import pci
from runtime import killable
from tests import fuse, tools
from tests.installer import incidents, settings
from tests.installer.incidents import Crew
from tests.installer.machines import Machine

ENTRY = pci.Entry(name="hisi_hpre-0", numbers="1:3", mode=0o666)
DEADLINE_S = 30


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A fake host with the driver 2.0.1."""
    tools.require_cluster(fuse.obstacles())
    monkeypatch.setenv("NODE_NAME", "kp920-1")
    made = Machine(tmp_path / "host")
    settings.installed(made, made.image("2.0.1"))
    return made


@pytest.fixture(params=[ENTRY.name, "below-dev"])
def tenant(request: pytest.FixtureRequest, fake: Machine) -> Iterator[str]:
    """A process has a file open on a file system whose server has died: its path may be a node's, by name or place."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    with fuse.dead(folder, request.param) as pid:
        process = fake.root / "proc/4711"
        process.mkdir()
        (process / "comm").write_text("tenant\n")
        (process / "fd").symlink_to(f"/proc/{pid}/fd")
        yield request.param
    folder.rmdir()


def ended(work: Callable[[], object]) -> bool:
    """Return whether work comes to its end in time; a thread that does not is left behind."""
    working = threading.Thread(target=work, daemon=True)
    working.start()
    working.join(DEADLINE_S)
    return not working.is_alive()


@pytest.mark.usefixtures("tenant")
def test_a_dead_file_with_a_nodes_name_holds_no_device_and_no_installer_up(fake: Machine) -> None:
    found: list[device_holders.Holder] = []

    assert ended(lambda: found.extend(device_holders.find_processes(fake.host, (ENTRY,))))
    assert found == []


@pytest.mark.parametrize("tenant", ["below-dev"], indirect=True)  # The fake kernel counts who has a node's name.
@pytest.mark.usefixtures("tenant")
def test_a_driver_is_changed_beside_a_tenants_dead_file(fake: Machine) -> None:
    with Crew(fake) as crew:
        job = crew.job()
        assert ended(job.settle)
        assert (job.shown.state, incidents.works(fake, "2.0.2")) == ("Ready", True), job.shown.reason


@pytest.mark.parametrize("place", ["etc/modprobe.d", "opt", "etc/udev/rules.d", "var/lib/kae"])
def test_a_look_at_a_dead_mount_ends_and_is_told(place: str, fake: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killable, "PATIENCE_S", 0.5)
    with Crew(fake) as crew, contextlib.ExitStack() as mounted:
        job = crew.job("2.0.1")
        assert job.settle().state == "Ready"
        mounted.enter_context(fuse.dead(fake.root / place))

        assert ended(job.loop.cycle)
        stuck = (job.shown.state, job.shown.reason)
        mounted.close()

        assert (stuck[0], place in stuck[1]) == ("Stuck", True), stuck
        assert job.settle().state == "Ready"
