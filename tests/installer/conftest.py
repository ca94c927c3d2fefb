"""Fixtures of the installer's tests: a host, images, an API server, and a clock that the test sets."""

import functools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.change import prepare
from installer.drain import device_users
from tests.installer import incidents, machines, podresources, settings
from tests.installer.incidents import Crew, Users
from tests.installer.machines import Machine
from tests.installer.settings import Boot
from tests.kube import apiserver
from tests.kube.apiserver import ApiServer


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's cluster is asked."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("NODE_NAME", "kp920-1")


@pytest.fixture(autouse=True)
def admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet of a fake host has started what it admitted at once."""
    monkeypatch.setattr(prepare, "_ADMITTED_S", 0.01)


@pytest.fixture(autouse=True)
def drains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a drain is the sum of its pauses, which are short."""
    monkeypatch.setattr(device_users, "Drain", functools.partial(incidents.drain, device_users.Drain))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A host on which we have installed the driver 2.0.1; not to be changed."""
    made = Machine(tmp_path_factory.mktemp("installed") / "host")
    settings.installed(made, made.image("2.0.1"))
    made.calls()
    return made


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A host that has the driver 2.0.0 by others; not to be changed."""
    return machines.with_kae(tmp_path_factory.mktemp("foreign") / "host", "2.0.0")


@pytest.fixture(scope="session")
def crashed(installed: Machine, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A host that had the driver 2.0.1, crashed as it loaded 2.0.2, and is up again; not to be changed."""
    made = installed.copied(tmp_path_factory.mktemp("crashed") / "host")
    with Crew(made) as crew:
        incidents.panic(made, crew.job())
    return made


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    """A host: a copy of one of those above where the test uses its fixture, else one without driver."""
    for name in ("foreign", "crashed", "installed"):
        if name in request.fixturenames:
            prepared: Machine = request.getfixturevalue(name)
            return prepared.copied(tmp_path / "host")
    return Machine(tmp_path / "host")


@pytest.fixture
def image(machine: Machine) -> Path:
    """An image with the driver 2.0.1."""
    return machine.image("2.0.1")


@pytest.fixture
def newer(machine: Machine) -> Path:
    """An image with the driver 2.0.2."""
    return machine.image("2.0.2")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """An API server, to which its `kubeconfig` leads."""
    with apiserver.serving(tmp_path) as serving:
        yield serving


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Boot:
    """Time passes where the test says so; the clocks that count are those of this machine's boot."""
    clock = Boot()
    monkeypatch.setattr(time, "clock_gettime", clock.read)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now_s)
    return clock


@pytest.fixture
def crew(machine: Machine, request: pytest.FixtureRequest) -> Iterator[Crew]:
    """Installers of the host, which know of the API server where the test has one."""
    known = request.getfixturevalue("server") if "server" in request.fixturenames else None
    with Crew(machine, known) as crew:
        yield crew


@pytest.fixture
def users(machine: Machine, server: ApiServer) -> Iterator[Users]:
    """Pods of the host."""
    with podresources.serving(machine.root) as kubelet:
        yield Users(kubelet, server)
