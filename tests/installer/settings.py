"""Settings: builders of configs, of host states that match them, and of the installer as the program wires it."""

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
from installer.host import host_state, kmod, pci, record
from installer.report import driver_state
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
"""The digest of the driver of `driver`."""

_CYCLES = 4

_OF_RECIPES = ("vendor", "moduleRules", "leftOut", "networkForce", "payloads", "nodes", "files", "resources")
"""Fields that are absent from the config where they are empty."""


def kind(name: str) -> shapes.Kind:
    """Return a kind as the compiler writes it."""
    (found,) = (item for item in devices.KINDS if item.name == name)
    return shapes.Kind(name=name, resource=found.resource, pf=found.pf, vf=found.vf, module=found.module)


def config(**changes: Any) -> shape.Config:
    """Return the smallest config for all kinds with these changes; an invalid one fails.

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
    """Return the same parameters for the module of every kind."""
    return {item.module: dict(values) for item in devices.KINDS}


def text(stated: shape.Config) -> str:
    """Return a config as the compiler writes it: without null values, and without empty fields of recipes."""
    data = _without_nulls(json.loads(msgspec.json.encode(stated)))
    return json.dumps({key: value for key, value in data.items() if value or key not in _OF_RECIPES})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


class Boot:
    """The clock that counts from the host's boot, as a test sets it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def read(self, clock: int) -> float:
        """Return the answer of clock_gettime."""
        assert clock == time.CLOCK_BOOTTIME, "another clock was asked"
        return self.now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """An installer of a host, as the program wires it."""

    parts: wiring.Wiring
    shown: driver_state.DriverState
    loop: loop.Loop

    def settle(self) -> driver_state.DriverState:
        """Run cycles until one ends with a pause; return the state."""
        for _ in range(_CYCLES):
            if self.loop.cycle() > 0:
                return self.shown
        raise AssertionError(f"It does not come to rest: {self.shown.reason}")


def wired(machine: machines.Machine, image: Path, kubeconfig: Path | None = None, **changes: Any) -> wiring.Wiring:
    """Return the parts for a machine, with the config of `config`."""
    stated = config(**changes)
    machine.host.own = paths.Own(stated.recipe)
    return wiring.Wiring(machine.host, stated, wiring.Folders(image, image / "payload"), kubeconfig)


def installer(machine: machines.Machine, image: Path, kubeconfig: Path | None = None, **changes: Any) -> Installer:
    """Return an installer that has not run yet; a second one for the same machine stands for a restart."""
    parts = wired(machine, image, kubeconfig, **changes)
    return Installer(parts=parts, shown=parts.published, loop=parts.loop)


def installed(machine: machines.Machine, image: Path, **changes: Any) -> driver_state.DriverState:
    """Bring a machine to the state that a config names; fail if that is impossible."""
    made = installer(machine, image, **changes)
    shown = made.settle()
    made.parts.close()
    assert shown.ready, shown.reason
    return shown


def changes_made(machine: machines.Machine) -> list[str]:
    """Return the program calls since the last question, without those that only read or have udev look at nodes."""
    return [call for call in machine.calls() if not call.startswith(("modinfo", "udevadm"))]


def versions(machine: machines.Machine) -> set[str | None]:
    """The versions of the loaded modules."""
    return {version for version, _ in machine.loaded().values()}


def break_parameter(machine: machines.Machine) -> None:
    """Change a parameter in force, as a load by hand does."""
    (machine.root / "sys/module/hisi_zip/parameters/pf_q_num").write_text("64\n")


def driver(**changes: Any) -> record.Driver:
    """Return the driver that `config` asks for, as it is in the store."""
    place = paths.KAE.modules(machines.KERNEL)
    stated: dict[str, Any] = {
        "id": "prebuilt-2.0.1-dddddddd",
        "digest": DIGEST,
        "source": "prebuilt",
        "version": "2.0.1",
        "kernel": machines.KERNEL,
        "modules": {f"{name}.ko": f"{place}/{name}.ko" for name in modulefiles.DRIVER},
        "options": desired.options(config()),
        "digests": {name: file(name).digest for name in modulefiles.DRIVER},
    }
    return record.Driver(**stated | changes)


def module(name: str, **changes: Any) -> kmod.Module:
    """Return a loaded module with the parameters of `config`."""
    stated: dict[str, Any] = {
        "name": name,
        "version": "2.0.1",
        "build": modulefiles.identity(name, "2.0.1")[1],
        "parameters": {key: str(value) for key, value in config().module_parameters.get(name, {}).items()},
        "users": 0,
    }
    return kmod.Module(**stated | changes)


def file(name: str, folder: str = "updates/kae", version: str = "2.0.1") -> kmod.File:
    """Return the file that modprobe would load for a name: by default one that KAE installed."""
    known, build = modulefiles.identity(name, version)
    path = f"/lib/modules/{machines.KERNEL}/{folder}/{name}.ko"
    return kmod.File(path=path, version=known, build=build, digest=f"sha256 of {name} {version}")


def function(address: str = "0000:79:00.0", kind_name: str = "hpre", **changes: Any) -> pci.Function:
    """Return a working physical function, whose entry has the number 0."""
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
    """Return one working function of each kind."""
    return (function("0000:75:00.0", "zip"), function("0000:76:00.0", "sec"), function("0000:79:00.0", "hpre"))


def current(**changes: Any) -> host_state.HostState:
    """Return the state of a host with a device of each kind and `driver`, as `config` asks."""
    stated: dict[str, Any] = {
        "kernel": machines.KERNEL,
        "boot": "00000001-0000-4000-8000-000000000000",
        "system": "openEuler 22.03 (LTS-SP4)",
        "secure_boot": False,
        "functions": functions(),
        "loaded": {name: module(name) for name in modulefiles.DRIVER},
        "files": {name: file(name) for name in modulefiles.DRIVER},
        "options": desired.options(config()),
        "rule": True,
        "has_rule": changes.get("rule", True),
        "record": record.Record(installed=driver(), since="2026-01-02T03:04:05Z"),
        "changing": False,
    }
    return host_state.HostState(**stated | changes)
