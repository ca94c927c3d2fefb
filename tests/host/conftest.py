"""Hosts as fixtures: one Debian and one stock of packages a session, a machine a test."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.host import chroot
from tests import tools
from tests.host import repositories, roots, rpms
from tests.installer import homes, incidents, machines, settings


@pytest.fixture(scope="session")
def debian() -> Path:
    tools.require_cluster(roots.obstacles())
    return roots.debian()


@pytest.fixture(scope="session")
def shelf(debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    del debian  # Without it there are no roots, and no reason for this.
    folder = tmp_path_factory.mktemp("roots")
    with roots.watched(folder), roots.in_memory(folder):
        yield folder


@pytest.fixture(scope="session")
def stocked(debian: Path, shelf: Path) -> Path:
    """The layer of every host: settings as openEuler has them, its rpm database, and repositories in /srv."""
    with roots.opened(shelf / "stocked", debian) as root:
        host = chroot.Host(root, homes.KAE)
        # Debian's rpm has its database in /root, and Debian's dnf lets repositories be away.
        host.write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")
        host.write("/etc/dnf/dnf.conf", "[main]\ngpgcheck=1\nbest=True\nskip_if_unavailable=False\n")
        rpms.build(host, repositories.BASE, "/srv/base")
        host.run("rpm", "-i", "--justdb", *(f"/srv/base/{package.file}" for package in repositories.BASE))
        repositories.stock(host)
    return roots.layer(shelf / "stocked")


@pytest.fixture
def machine(debian: Path, stocked: Path, shelf: Path) -> Iterator[machines.Machine]:
    """A machine that has just started, in a root of its own, which programs enter by chroot."""
    folder = Path(tempfile.mkdtemp(dir=shelf))
    with roots.opened(folder, stocked, debian) as root:
        yield machines.Machine(root, chroot=True, mknod=True)
    shutil.rmtree(folder)


@pytest.fixture
def host(machine: machines.Machine) -> chroot.Host:
    return machine.host


@pytest.fixture
def image(machine: machines.Machine, tmp_path: Path) -> Path:
    machine.add_image(tmp_path / "image", "2.0.1")
    settings.installed(machine, tmp_path / "image")
    return tmp_path / "image"


@pytest.fixture
def newer(machine: machines.Machine, image: Path, tmp_path: Path) -> Path:
    del image
    machine.add_image(tmp_path / "newer", "2.0.2")
    return tmp_path / "newer"


@pytest.fixture
def crew(machine: machines.Machine) -> Iterator[incidents.Crew]:
    with incidents.Crew(machine) as crew:
        yield crew
