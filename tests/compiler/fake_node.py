"""A compiled cluster on a fake host: its installer installs a driver, and its device plugin serves the devices.

`python -m tests.compiler.fake_node OUTPUT FOLDER` takes both configs from the DaemonSets in OUTPUT, a folder of
output/, works in FOLDER, and prints what the node then has. A socket's path is short, so FOLDER should be.
"""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from compiler import kae
from device_plugin import loop, plugin
from device_plugin.host import paths
from runtime import device_plugin_config, driver_config, shapes, state
from tests.device_plugin import functions, kubelets, machines
from tests.device_plugin.functions import Function
from tests.installer import layouts, settings
from tests.installer.machines import Machine

_CONFIG = "device.openfuyao.com/config"


def main(output: Path, folder: Path) -> None:
    """Print the state of the driver, its modules, and the device nodes that a container gets of each resource."""
    os.environ["NODE_NAME"] = "kp920-01"
    wanted = driver_config.load(_config(output / "driver", folder / "driver.json"))
    offered = shapes.load(_config(output / "device-plugin", folder / "plugin.json"), device_plugin_config.Config)
    host = Machine(folder / "host", functions=(*layouts.two_sockets(), *_others()))
    shown = settings.installed(host, host.image("2.2.0"), stated=wanted)
    _make_nodes(host)
    given = asyncio.run(_given(host, offered, folder))
    sys.stdout.write(json.dumps({"state": shown.state, "modules": list(host.loaded()), "given": given}))


def _config(component: Path, file: Path) -> Path:
    """Write the config of a component's only DaemonSet to a file, as the kubelet does; return the file."""
    (found,) = component.glob("daemonset-*.yaml")
    file.write_text(yaml.safe_load(found.read_text())["spec"]["template"]["metadata"]["annotations"][_CONFIG])
    return file


def _others() -> list[Function]:
    """Return a function of each kind that no machine of these tests has."""
    known = {function.kind.name for function in layouts.two_sockets()}
    others = [kind for kind in kae.KINDS if kind.name not in known]
    return [
        Function(address=f"0000:{0x60 + at:x}:00.0", kind=machines.KIND[kind.name]) for at, kind in enumerate(others)
    ]


def _make_nodes(host: Machine) -> None:
    """Put device nodes in the places of the files that stand for them."""
    nodes = {numbers: name for name, numbers in functions.NODES}
    for entry in host.entries():
        numbers = (host.root / "sys/class/uacce" / entry / "dev").read_text().strip()
        (host.root / "dev" / entry).unlink()
        (host.root / "dev" / entry).symlink_to(f"/dev/{nodes[numbers]}")


async def _given(host: Machine, offered: device_plugin_config.Config, folder: Path) -> dict[str, Any]:
    root = host.root
    where = paths.Paths(
        sysfs=root / "sys",
        dev=root / "dev",
        run=host.host.path(offered.home.run),
        kubelet=folder / "kubelet",
        recipe=offered.recipe,
    )
    running = loop.Loop(plugin.Plugin(where, offered), state.ProgramDir(folder), rescan_s=30)
    where.sockets.mkdir(parents=True)
    async with kubelets.Kubelet(where.kubelet) as kubelet:
        task = asyncio.create_task(running.run())
        names = [resource.name for resource in offered.resources]
        await kubelet.until(lambda: all(kubelet.capacity(name) for name in names))
        given = {name: sorted((await kubelet.admit(name, {name: 1})).devices) for name in names}
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return given


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
