"""What tests tell the installer, a host that has it, and the installer itself, joined as the program joins it."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from compiler import devices
from installer import config as shape
from installer import loop, paths, wiring
from installer.decide import desired
from installer.host import host_state, kmod, pci
from installer.report import driver_state
from installer.store import record
from runtime import shapes
from tests.installer import machines, modulefiles

PREBUILT = shape.Source(prebuilt=shape.Prebuilt())
BUILD = shape.Source(build=shape.Build())
IN_TREE = shape.Source(in_tree=shape.InTree())

OTHER_KERNEL = "6.6.0-28.0.0.34.oe2403.aarch64"
"""Of openEuler 24.03 LTS."""

MINE, OTHERS = (f"kae-driver-tls-{number}" for number in range(2))
"""Leases; the smallest config names the first."""

DIGEST = "d" * 64
"""Of the driver of `driver`."""

_CYCLES = 4


def kind(name: str) -> shapes.Kind:
    """A kind as the compiler tells it."""
    (found,) = (item for item in devices.KINDS if item.name == name)
    return shapes.Kind(name=name, resource=found.resource, pf=found.pf, vf=found.vf, module=found.module)


def config(**changes: Any) -> shape.Config:
    """A config for all kinds that differs from the smallest one in what is said; what the program would refuse fails.

    Fields as `installer.config.Config` names them.
    """
    kinds = tuple(kind(item.name) for item in devices.KINDS)
    stated: dict[str, Any] = {
        "cluster": "east",
        "policy": "tls",
        "pool": "tls",
        "vendor": devices.VENDOR,
        "kinds": kinds,
        "daemon_set": shape.DaemonSet(namespace="kae-operator", name="kae-driver-tls"),
        "state": "Present",
        "driver_version": "2.0.1",
        "install_policy": "IfNotPresent",
        "enabled_cleanup": False,
        "source": PREBUILT,
        "modules": modulefiles.DRIVER,
        "module_parameters": parameters(uacce_mode=2, pf_q_num=256),
        "drain": shape.Drain(timeout_seconds=1),
        "leases": shape.Leases(namespace="kae-operator", names=(MINE,)),
    }
    return msgspec.json.decode(text(shape.Config(**stated | changes)), type=shape.Config, strict=True)


def parameters(**values: int) -> dict[str, dict[str, int]]:
    """The same parameters for the module of every kind."""
    return {item.module: dict(values) for item in devices.KINDS}


def text(stated: shape.Config) -> str:
    """A config as the compiler writes it: what has no value is left out."""
    return json.dumps(_without_nulls(json.loads(msgspec.json.encode(stated))))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


class Boot:
    """The clock that counts from the host's boot, as a test sets it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def read(self, clock: int) -> float:
        """What clock_gettime answers."""
        assert clock == time.CLOCK_BOOTTIME, "another clock was asked"
        return self.now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """An installer of a host, as the program has it."""

    parts: wiring.Wiring
    shown: driver_state.State
    loop: loop.Loop

    def settle(self) -> driver_state.State:
        """Cycles until nothing is to be done at once; how the host stands then."""
        for _ in range(_CYCLES):
            if self.loop.cycle() > 0:
                return self.shown
        raise AssertionError(f"It does not come to rest: {self.shown.reason}")


def wired(machine: machines.Machine, image: Path, kubeconfig: Path | None = None, **changes: Any) -> wiring.Wiring:
    """The workshop for a machine, by the config of `config`; nobody is asked before something needs an answer."""
    return wiring.connect(machine.host, config(**changes), image, kubeconfig)


def installer(machine: machines.Machine, image: Path, kubeconfig: Path | None = None, **changes: Any) -> Installer:
    """An installer that has not looked yet; another one for the same machine is one that was started again."""
    parts = wired(machine, image, kubeconfig, **changes)
    shown = driver_state.State()
    running = loop.Loop(parts.host, parts.settings, parts.changer, parts.digest, shown)
    return Installer(parts=parts, shown=shown, loop=running)


def installed(machine: machines.Machine, image: Path, **changes: Any) -> driver_state.State:
    """Brings a machine to the state that a config names, and fails where that cannot be."""
    made = installer(machine, image, **changes)
    shown = made.settle()
    made.parts.close()
    assert shown.ready, shown.reason
    return shown


def changes_made(machine: machines.Machine) -> list[str]:
    """The calls of programs since they were last asked for, without those that only look."""
    return [call for call in machine.calls() if not call.startswith("modinfo")]


def versions(machine: machines.Machine) -> set[str | None]:
    """The versions of the loaded modules."""
    return {version for version, _ in machine.loaded().values()}


def break_parameter(machine: machines.Machine) -> None:
    """Lets a parameter be in force that was not asked for, as after a load by hand."""
    (machine.root / "sys/module/hisi_zip/parameters/pf_q_num").write_text("64\n")


def driver(**changes: Any) -> record.Driver:
    """The driver that `config` asks for, in the store."""
    place = paths.modules(machines.KERNEL)
    stated: dict[str, Any] = {
        "id": "prebuilt-2.0.1-dddddddd",
        "digest": DIGEST,
        "source": "prebuilt",
        "version": "2.0.1",
        "kernel": machines.KERNEL,
        "modules": {f"{name}.ko": f"{place}/{name}.ko" for name in modulefiles.DRIVER},
        "options": desired.options(config()),
    }
    return record.Driver(**stated | changes)


def module(name: str, **changes: Any) -> kmod.Module:
    """A module as it is when `config` is in force."""
    stated: dict[str, Any] = {
        "name": name,
        "version": "2.0.1",
        "build": modulefiles.identity(name, "2.0.1")[1],
        "parameters": {key: str(value) for key, value in config().module_parameters.get(name, {}).items()},
        "users": 0,
    }
    return kmod.Module(**stated | changes)


def file(name: str, folder: str = "updates/kae", version: str = "2.0.1") -> kmod.File:
    """What modprobe would load for a name: by default a module of ours."""
    known, build = modulefiles.identity(name, version)
    return kmod.File(path=f"/lib/modules/{machines.KERNEL}/{folder}/{name}.ko", version=known, build=build)


def function(address: str = "0000:79:00.0", kind_name: str = "hpre", **changes: Any) -> pci.Function:
    """A physical function at work, whose entry has the number 0."""
    found = kind(kind_name)
    stated: dict[str, Any] = {
        "address": address,
        "kind": found,
        "virtual": False,
        "driver": found.module,
        "entry": pci.Entry(name=f"{found.module}-0", numbers="1:3", mode=0o666),
        "vfs": 0,
        "total_vfs": 63,
    }
    return pci.Function(**stated | changes)


def functions() -> tuple[pci.Function, ...]:
    """One of each kind, at work."""
    return (
        function("0000:75:00.0", "zip"),
        function("0000:76:00.0", "sec"),
        function("0000:79:00.0", "hpre"),
    )


def current(**changes: Any) -> host_state.HostState:
    """A host with a device of each kind on which `driver` is at work, as `config` asks."""
    stated: dict[str, Any] = {
        "kernel": machines.KERNEL,
        "boot": "00000001-0000-4000-8000-000000000000",
        "system": "openEuler 22.03 (LTS-SP4)",
        "secure_boot": False,
        "free_bytes": 1 << 34,
        "functions": functions(),
        "loaded": {name: module(name) for name in modulefiles.DRIVER},
        "files": {name: file(name) for name in modulefiles.DRIVER},
        "options": desired.options(config()),
        "rule": True,
        "record": record.Record(installed=driver(), since="2026-01-02T03:04:05Z"),
        "changing": False,
    }
    return host_state.HostState(**stated | changes)
