"""A fake host on which the real installer goes from one config to another, and what happened there.

What happened is read from the host's kernel and files and from the evictions, not from what the installer says.
"""

import contextlib
import functools
import hashlib
import logging
import os
import random
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from installer.change import prepare
from installer.drain import device_users
from installer.report import left, reporter
from runtime import driver_config, state
from tests.device_plugin.functions import Function
from tests.installer import incidents, layouts, modulefiles, podresources, stacks
from tests.installer.machines import Machine
from tests.kube import apiserver
from tests.property.node_pairs import projects

ANNOTATION = "device.openfuyao.com/config"
POD = "shop/checkout"
_ENDS_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a DaemonSet of an output brings to a node."""

    name: str
    """Of the DaemonSet."""
    config: driver_config.Config
    image: str
    payloads: Sequence[tuple[str, str, str]]
    """Payload, path and image of what init containers copy."""
    ends: bool
    """True where the installer ends with its work, and leaves the host to the reporter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What happened on a host."""

    ready: bool
    foreign: bool
    """The driver is one that others installed, and stays."""
    reason: str
    unloaded: bool
    """Modules of the driver were unloaded."""
    files: bool
    """Its module files or its files of user space are other ones."""
    functions: bool
    """The number of virtual functions is another one."""
    parameters: bool
    """A module that stayed has other parameters in force."""
    evicted: bool
    loaded: frozenset[str]
    brought: frozenset[str]
    """Those of these that are not the kernel's own."""


def wanted(daemon_set: Mapping[str, Any]) -> Wanted:
    """Return what a DaemonSet of drivers brings."""
    template = daemon_set["spec"]["template"]
    config = msgspec.json.decode(
        template["metadata"]["annotations"][ANNOTATION], type=driver_config.Config, strict=True
    )
    pod = template["spec"]
    payloads = [
        (one["volumeMounts"][0]["subPath"].partition("/")[0], one["command"][-2], one["image"])
        for one in pod.get("initContainers", ())
        if one["name"].startswith("payload-")
    ]
    programs = (*pod.get("initContainers", ()), *pod["containers"])
    (installer,) = (one for one in programs if one["name"] == "installer")
    return Wanted(
        name=daemon_set["metadata"]["name"],
        config=config,
        image=installer["image"],
        payloads=payloads,
        ends="--until-right" in installer["command"],
    )


@contextlib.contextmanager
def host(folder: Path, project: projects.Project, draw: random.Random, *, is_bare: bool = False) -> Iterator["Host"]:
    """A host with the devices of a project's node and its kernels, perhaps with a module that a driver may replace.

    One that `is_bare` has no module loaded.
    """
    functions = [one for one in layouts.two_sockets() if _kind(one) in project.kinds]
    machine = Machine(folder / "host", projects.KERNELS[0], functions=functions)
    machine.add_kernel(projects.KERNELS[1])
    for kernel in projects.KERNELS:
        for name in {*projects.LAB, *projects.OLD}:
            place = machine.root / f"lib/modules/{kernel}/kernel/drivers/lab/{name}.ko"
            layouts.put(place, _module(name, modulefiles.IN_TREE, kernel))
        machine.host.run("depmod", "-a", kernel)
    if draw.random() < 0.5 and not is_bare:
        machine.load("old_dev")
    if draw.random() < 0.2 and not is_bare:  # Others have installed a driver, or the kernel's own modules are one.
        machine.load(*(modulefiles.DRIVER if project.of_kae else project.policy["driver"]["modules"]))
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(logging.root, "handlers", [logging.NullHandler()]))
        stack.enter_context(mock.patch.dict(os.environ, {"NODE_NAME": "n1"}))
        stack.enter_context(mock.patch.object(prepare, "_ADMITTED_S", 0.01))
        drain = functools.partial(incidents.drain, device_users.Drain)
        stack.enter_context(mock.patch.object(device_users, "Drain", drain))
        server = stack.enter_context(apiserver.serving(folder))
        kubelet = stack.enter_context(podresources.serving(machine.root))
        yield Host(folder, machine, incidents.Users(kubelet, server), server)


def _kind(function: Function) -> str:
    (found,) = (kind for kind, device in projects.IDS.items() if function.device.removeprefix("0x") == device)
    return found


def _module(name: str, version: str, kernel: str) -> bytes:
    keys = {"depends": "lab_core"} if name == "lab_net" else {}
    if name == "lab_dev":
        keys["node"] = ";".join(node.removeprefix("/") for node in projects.NODES)
    # Both parameters are 0 by default, and take any number.
    return stacks.module(
        name,
        version,
        kernel,
        parm="num:a number (int);text:a text (charp)",
        range="num:0:0:9999:1",
        text="text:none",
        **keys,
    )


class Host:
    """A host, and who works on it."""

    def __init__(self, folder: Path, machine: Machine, users: incidents.Users, server: apiserver.ApiServer) -> None:
        """Nobody works yet."""
        self._folder, self._machine, self._users, self._server = folder, machine, users, server

    def boot(self, kernel: str) -> None:
        """Boot a kernel, if another one runs."""
        if self._machine.kernel != kernel:
            self._machine.reboot(kernel)
            # The kubelet takes pods with a device again only where a device plugin offers one.
            self._users.kubelet.remove(POD)

    def occupy(self, config: driver_config.Config) -> None:
        """A pod holds a device of each resource of a driver."""
        for resource in config.resources:
            self._users.come(POD, device="0000:79:00.0", resource=resource)

    def bring(self, asked: Wanted) -> Happened:
        """Run an installer until it comes to rest."""
        machine = self._machine
        before, machine_calls = self._state(), machine.calls()
        del machine_calls
        evictions = len(self._users.evicted)
        with incidents.Crew(machine, self._server) as crew:
            job = crew.job(asked.config.driver_version, self._image(asked), stated=asked.config)
            shown = job.settle()
            ready = shown.state in ("Ready", "Foreign") and (not asked.ends or self._is_left(job))
        after = self._state()
        gone = [call for call in machine.calls() if call.startswith(("rmmod ", "modprobe -r", "modprobe --remove"))]
        stayed = before["parameters"].keys() & after["parameters"].keys()
        return Happened(
            ready=ready,
            foreign=shown.state == "Foreign",
            reason=f"{shown.state}: {shown.reason}",
            unloaded=bool(gone),
            files=before["files"] != after["files"],
            functions=before["functions"] != after["functions"],
            parameters=any(before["parameters"][name] != after["parameters"][name] for name in stayed),
            evicted=len(self._users.evicted) > evictions,
            loaded=frozenset(machine.loaded()),
            brought=frozenset(name for name, (version, _) in machine.loaded().items() if version),
        )

    def end(self, asked: Wanted, *, is_deleted: bool) -> Happened:
        """End an installer; one that cleans up removes the driver as its DaemonSet is deleted (installer/cli.py)."""
        config = asked.config
        if config.enabled_cleanup and is_deleted:
            config = msgspec.structs.replace(config, state="Absent")
            return self.bring(replace(asked, config=config, ends=False))
        nothing = frozenset[str]()
        still = dict.fromkeys(("unloaded", "files", "functions", "parameters", "evicted", "foreign"), False)
        return Happened(ready=True, reason="it ends", loaded=nothing, brought=nothing, **still)

    def _is_left(self, job: incidents.Job) -> bool:
        """Return whether the installer ends, and the reporter after it finds the host right."""
        programs, own = self._folder / "program", self._folder / "report"
        for path in (programs, own):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        job.parts.leave_to_reporter(keeper := left.Keeper(programs))
        job.loop.keeper = keeper
        late = threading.Timer(_ENDS_S, job.parts.host.stop.set)
        late.start()
        job.loop.run(state.ProgramDir(programs))
        late.cancel()
        if job.parts.host.stop.is_set():
            job.parts.host.stop.clear()
            return False
        reporting = reporter.Reporter(job.parts.host, job.parts.settings, programs, own)
        return not any((reporting.look(), reporting.look())) and reporting.shown.ready

    def _state(self) -> dict[str, Any]:
        machine = self._machine
        files = machine.files("usr/lib/modules", "opt")
        return {
            "files": {
                name: digest for name, (_, digest) in files.items() if "/updates/" in name or name.startswith("opt/")
            },
            "functions": {name: machine.vfs(name) for name in machine.entries().values()},
            "parameters": {name: self._parameters(name) for name in machine.loaded()},
        }

    def _parameters(self, module: str) -> dict[str, str]:
        folder = self._machine.root / f"sys/module/{module}/parameters"
        return {path.name: path.read_text() for path in sorted(folder.glob("*"))}

    def _image(self, asked: Wanted) -> Path:
        """Return the root of the image: a mirror holds the same, and another version something else."""
        told = hashlib.sha256(repr([_content(asked.image), *asked.payloads]).encode()).hexdigest()
        folder = self._folder / "images" / told
        if folder.exists():
            return folder
        if asked.config.recipe == "kae":
            for kernel in projects.KERNELS:
                for name, data in modulefiles.driver(_content(asked.image), kernel).items():
                    layouts.put(folder / f"opt/lib/modules/{kernel}/{name}", data)
            layouts.put(folder / "opt/kae/lib/libwd.so.2", _content(asked.image).encode())
        for name, path, image in asked.payloads:
            top, version = folder / "payload" / name / path.lstrip("/"), _content(image)
            layouts.put(top / "README", version.encode())
            for kernel in projects.KERNELS if (name, path) == ("modules", "/opt/lib/modules") else ():
                for module in projects.LAB:
                    layouts.put(top / f"{kernel}/extra/{module}.ko", _module(module, version, kernel))
            for part in "ab" if (name, path) == ("user", "/opt/user") else "":
                layouts.put(top / f"{part}/lib.so", f"{part} {version}".encode())
        return folder


def _content(image: str) -> str:
    return image.rpartition("/")[2].replace(":", "-")
