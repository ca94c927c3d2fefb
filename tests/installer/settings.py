"""Settings: builders of configs, of host states that match them, and of the installer as the program wires it."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from compiler import kae
from compiler.formats import canonical
from installer import cli, loop, paths
from installer.decide import desired
from installer.host import host_state, kmod, pci, record
from installer.report import driver_state
from runtime import driver_config, shapes
from tests.installer import homes, machines, modulefiles

PREBUILT = driver_config.Source(prebuilt=driver_config.Prebuilt())
BUILD = driver_config.Source(build=driver_config.Build())
IN_TREE = driver_config.Source(in_tree=driver_config.InTree())

OTHER_KERNEL = "6.6.0-28.0.0.34.oe2403.aarch64"
"""Of openEuler 24.03 LTS."""

MINE, OTHERS = (f"kae-driver-tls-{number}" for number in range(2))
"""Leases; the smallest config names the first."""

RESOURCE = "openfuyao.com/kae.hpre"

DIGEST = "d" * 64
"""The digest of the driver of `driver`."""

_CYCLES = 4


def kind(name: str) -> shapes.Kind:
    """Return a kind as the compiler writes it."""
    (found,) = (item for item in kae.KINDS if item.name == name)
    ids = {"devices": (found.pf,), "virtual": (found.vf,)}
    return shapes.Kind(name=name, vendor=kae.VENDOR, module=found.module, **ids)


def config(**changes: Any) -> driver_config.Config:
    """Return the smallest config of KAE for all kinds, or of another recipe, with these changes; an invalid one fails.

    Fields as `runtime.driver_config` names them, save that `modules` are names, whose parameters, and whatever else
    they have, are in `module_parameters` and `module_rules`.
    """
    stated: dict[str, Any] = {
        "version": shapes.VERSION,
        "cluster": "east",
        "policy": "tls",
        "pool": "tls",
        "daemon_set": driver_config.DaemonSet(namespace="kae-operator", name="kae-driver-tls"),
        "state": "Present",
        "driver_version": "2.0.1",
        "install_policy": "IfNotPresent",
        "enabled_cleanup": False,
        "source": PREBUILT,
        "module_parameters": {},
        "module_rules": {},
        "drain": driver_config.Drain(timeout_seconds=1),
        "leases": driver_config.Leases(namespace="kae-operator", names=(MINE,)),
    }
    stated |= ({} if "recipe" in changes else _of_kae()) | changes
    made: type[driver_config.Config] = driver_config.Plain if "recipe" in changes else driver_config.Uacce
    told, rules = stated.pop("module_parameters"), stated.pop("module_rules")
    stated["modules"] = tuple(
        driver_config.Module(name=name, parameters=told.get(name, {}), **rules.get(name, {}))
        for name in stated["modules"]
    )
    written = text(made(home=homes.home(stated["recipe"]), **stated))
    return msgspec.json.decode(written, type=made, strict=True)


def _of_kae() -> dict[str, Any]:
    return {
        "recipe": "kae",
        "kinds": tuple(kind(item.name) for item in kae.KINDS),
        "modules": modulefiles.DRIVER,
        "module_parameters": parameters(uacce_mode=2, pf_q_num=256),
        "above": ("hisi_acc_vfio_pci", "hisi_migration"),
        "related": ("hisi_rde", "hisi_trng", "hisi_trng_v2"),
        "files": (driver_config.HostFiles(from_="/opt/kae", to="/opt/kae"),),
        "resources": tuple(name for item in kae.KINDS for name in (item.resource, item.vfio_resource)),
    }


def parameters(**values: int) -> dict[str, dict[str, int]]:
    """Return the same parameters for the module of every kind."""
    return {item.module: dict(values) for item in kae.KINDS}


def text(stated: driver_config.Config) -> str:
    """Return a config as the compiler writes it."""
    return json.dumps(canonical.stated(stated))


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

    parts: cli.Wiring
    shown: driver_state.DriverState
    loop: loop.Loop

    def settle(self) -> driver_state.DriverState:
        """Run cycles until one ends with a pause; return the state."""
        for _ in range(_CYCLES):
            if self.loop.cycle() > 0:
                return self.shown
        raise AssertionError(f"It does not come to rest: {self.shown.reason}")


def wired(machine: machines.Machine, image: Path, kubeconfig: Path | None = None, **changes: Any) -> cli.Wiring:
    """Return the parts for a machine, with the config that is `stated`, else with that of `config`."""
    stated = changes["stated"] if "stated" in changes else config(**changes)
    machine.host.own = paths.Own(stated.home)
    return cli.Wiring(machine.host, stated, cli.Folders(image, image / "payload"), kubeconfig)


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
    place = homes.KAE.modules(machines.KERNEL)
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
        "parameters": {key: str(value) for key, value in config().parameters.get(name, {}).items()},
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
        "release": ("openEuler", "22.03"),
        "secure_boot": False,
        "functions": functions(),
        "loaded": {name: module(name) for name in modulefiles.DRIVER},
        "files": {name: file(name) for name in modulefiles.DRIVER},
        "options": desired.options(config()),
        "rule": True,
        "has_rule": changes.get("rule", True),
        "record": record.Record(installed=driver(), since="2026-01-02T03:04:05Z"),
        "changing": False,
        "home": homes.KAE.home,
    }
    return host_state.HostState(**stated | changes)
