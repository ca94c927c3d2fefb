"""Pods of an installer for another driver than KAE's: images of payloads, the init containers, and the config."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from runtime import driver_config
from tests.installer import settings
from tests.vm import host

NAMESPACE = "kae-operator"
KMODS = "/payload/kmods"
SIMPLE = ("simple_kmod", "simple_procfs_kmod")
_NUMBERS = itertools.count(1)

_CONTAINER = "setpriv --bounding-set=-all,+sys_chroot --no-new-privs chroot"
"""Runs a program of an image with no other capability."""


def config(recipe: Mapping[str, Any], version: str, **fields: Any) -> dict[str, Any]:
    """Return the config of a recipe of `stacks`, with these fields of `settings.config`."""
    stated = {"install_policy": "Always", "driver_version": version, "drain": driver_config.Drain(timeout_seconds=5)}
    written: dict[str, Any] = json.loads(settings.text(settings.config(**{**recipe, **stated, **fields})))
    return written


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
