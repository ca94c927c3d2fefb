"""Pods of an installer for another driver than KAE's: images of payloads, the init containers, and the config."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from tests.vm import host

NAMESPACE = "kae-operator"
KMODS = "/payload/kmods"
SIMPLE = ("simple_kmod", "simple_procfs_kmod")
_NUMBERS = itertools.count(1)

_CONTAINER = "setpriv --bounding-set=-all,+sys_chroot --no-new-privs chroot"
"""Runs a program of an image with no other capability."""

_BASE = {
    "version": 1,
    "cluster": "lab",
    "kinds": [],
    "class": "none",
    "state": "Present",
    "installPolicy": "Always",
    "enabledCleanup": False,
    "source": {"prebuilt": {}},
    "drain": {"enabled": True, "timeoutSeconds": 5},
}


def config(recipe: str, version: str, **fields: Any) -> dict[str, Any]:
    daemon_set = {"namespace": NAMESPACE, "name": f"{recipe}-driver-lab"}
    leases = {"namespace": NAMESPACE, "names": [f"{recipe}-driver-lab-1"]}
    named = {"recipe": recipe, "policy": "lab", "pool": "lab", "daemonSet": daemon_set, "leases": leases}
    return {**_BASE, **named, "driverVersion": version, **fields}


def simple(version: str, **fields: Any) -> dict[str, Any]:
    modules = {"modules": SIMPLE, "payloads": [{"name": "modules", "paths": ["/opt/lib/modules"]}]}
    parameters = {"simple_procfs_kmod": {"number": 7}}
    return config("simple-kmod", version, **modules, moduleParameters=parameters, **fields)


@contextlib.contextmanager
def running(
    on: host.Host, wanted: Mapping[str, Any], images: Mapping[str, str], options: str = ""
) -> Iterator[host.Installer]:
    """Run a pod to the end of the block; images, by payload, are those of `kmod_images`, or at paths of the guest."""
    folder = f"/run/pod-{next(_NUMBERS)}"
    for payload in wanted["payloads"]:
        _copy(on, folder, images[payload["name"]], payload)
    on.guest.write(f"{folder}/config.json", json.dumps(wanted))
    on.guest.run(f"mkdir -p {folder}/image {folder}/program")
    places = f"--config {folder}/config.json --payload-dir {folder}/payload --program-dir {folder}/program"
    installer = on.begin(f"{folder}/image", options=f"{places} {options}")
    yield installer
    installer.stop()


def _copy(on: host.Host, folder: str, image: str, payload: Mapping[str, Any]) -> None:
    """Do what the init containers of a payload do, in the image's root, with the volume at /payload."""
    for path in payload["paths"]:
        volume = f"{folder}/payload/{payload['name']}{PurePosixPath(path).parent}"
        root = PurePosixPath(KMODS, image)
        runs = f"{_CONTAINER} {root} cp -R -H -f {path} /payload"
        on.guest.run(f"mkdir -p {volume} && mount --bind {volume} {root}/payload && {runs} && umount {root}/payload")
