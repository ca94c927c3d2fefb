"""Incidents: events at a chosen step of an installer's work, and the pods and processes that hold devices."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from installer import loop
from installer.drain import device_users
from installer.host import record
from installer.report import driver_state
from tests.installer import homes, layouts, podresources, settings
from tests.installer.fakes import kernel
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

POD = "shop/checkout"
HPRE = "0000:79:00.0"
"""A physical function of two sockets, whose entry is the first."""


PACE_S = 600
"""The least time between two tries that evict."""


def drain(made: Callable[..., device_users.Drain], **stated: Any) -> device_users.Drain:
    """Return a drain whose clock counts the seconds of its pauses, which are short; those of a test are its own."""
    passed_s = 0.0

    def pause(seconds: float) -> None:
        nonlocal passed_s
        passed_s += seconds
        stated["stop"].wait(0.005)

    return made(**{"clock": lambda: passed_s, "pause": pause} | stated)


class Meanwhile(driver_state.DriverState):
    """The state of a host, which runs planned functions when a step is begun, done or failed."""

    def __init__(self) -> None:
        """Plan nothing."""
        super().__init__()
        self.plans: list[tuple[str, str, Callable[[], object]]] = []
        self.taken: list[str] = []
        """The steps that were begun, in order."""

    def step(self, name: str, event: str, seconds: float) -> None:
        """Store a step, and run the functions that are planned for it."""
        super().step(name, event, seconds)
        if event == "begun":
            self.taken.append(name)
        for plan in [plan for plan in self.plans if plan[:2] == (name, event)]:
            self.plans.remove(plan)
            plan[2]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(settings.Installer):
    """An installer to which things happen."""

    shown: Meanwhile

    def at(self, step: str, act: Callable[[], object], *, event: str = "done") -> None:
        """Lets something happen once: when this step is begun, done or has failed for the first time."""
        self.shown.plans.append((step, event, act))

    def end_after(self, step: str) -> None:
        """Work until this step is done, and end as by SIGKILL; the host stays up."""

        def end() -> None:
            raise Killed

        self.at(step, end)
        with pytest.raises(Killed):
            self.settle()


class Killed(BaseException):
    """The installer ends where it is."""


class Crew:
    """The installers of a host, one after the other; all end with the block."""

    def __init__(self, machine: Machine, server: ApiServer | None = None) -> None:
        """Nobody works yet."""
        self._machine = machine
        self._server = server
        self._jobs: list[Job] = []

    def __enter__(self) -> "Crew":
        """Begins the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends all."""
        for job in self._jobs:
            job.parts.close()

    def job(self, version: str = "2.0.2", image: Path | None = None, **changes: Any) -> Job:
        """An installer that has just been started, and goes on with the Lease of the one before, as the program does.

        The one before has ended. The image is by default the machine's own of that version.
        """
        for before in self._jobs:
            before.parts.close()
        kubeconfig = self._server.kubeconfig if self._server is not None else None
        parts = settings.wired(
            self._machine, image or self._machine.image(version), kubeconfig, driver_version=version, **changes
        )
        parts.resume()
        shown = Meanwhile()
        running = loop.Loop(parts.host, parts.settings, parts.changer, parts.digest, shown)
        self._jobs.append(Job(parts=parts, shown=shown, loop=running))
        return self._jobs[-1]


class Users:
    """Pods with a device, as the kubelet and the API server know them; who is evicted goes at once."""

    def __init__(self, kubelet: podresources.Kubelet, server: ApiServer) -> None:
        """There are none yet."""
        self.kubelet = kubelet
        self._server = server
        server.state.when_evicted = kubelet.remove

    def come(self, *pods: str, device: str = HPRE, resource: str = settings.RESOURCE) -> None:
        """Pods are given a device."""
        for pod in pods:
            self.kubelet.give(pod, "nginx", resource, device)
            self._server.put_pods(pod)

    @property
    def evicted(self) -> list[str]:
        """The evicted pods."""
        return self._server.state.evicted


def flip(path: Path) -> None:
    """Change the last bit of a file, as a bad disk does."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def panic(machine: Machine, job: Job) -> None:
    """Let the driver 2.0.2 panic as the installer loads it, and boot."""
    machine.let_panic("2.0.2")
    crash(machine, job)


def crash(machine: Machine, job: settings.Installer) -> None:
    """Let an installer work until the kernel panics, and boot."""
    with pytest.raises(kernel.Panic):
        job.settle()
    machine.reboot()


def works(machine: Machine, version: str = "2.0.1") -> bool:
    """Return whether a driver is whole and open: all devices serve everybody, and no transaction is running."""
    library = machine.host.path(f"{homes.KAE.home.files}/lib/libwd.so.2")
    return (
        settings.versions(machine) == {version}
        and len(machine.loaded()) == len(settings.config().names)
        and set(machine.entries().values()) >= {function.address for function in layouts.two_sockets()}
        and set(machine.nodes().values()) == {0o666}
        and library.read_text().strip().endswith(version)
        and not machine.host.path(homes.KAE.changing).exists()
        and record.read(machine.host).change is None
    )


def blocked(machine: Machine) -> bool:
    """Return whether no boot loads the driver."""
    return machine.host.path(homes.KAE.blocked).exists()


def holder(server: ApiServer) -> str:
    """Return the holder of the Lease; empty where there is none."""
    held = server.lease(settings.MINE)
    return str(held.get("holderIdentity", ""))
