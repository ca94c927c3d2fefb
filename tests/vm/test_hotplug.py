"""A device that is pulled out of a running machine, and put back: what the kubelet is told, and when."""

import json
import time
from typing import Any

import pytest

from compiler.formats import canonical
from runtime import shapes
from tests.installer import homes
from tests.vm import conftest, host, machine

ADDRESS = "0000:01:00.0"
SLOT = ("-device", "pcie-root-port,id=slot0,chassis=1", "-device", "pvpanic-pci,bus=slot0,id=card0")
RESOURCE = "openfuyao.com/kae.zip"

CONFIG = {
    "version": shapes.VERSION,
    "cluster": "east",
    "policy": "tls",
    "recipe": "kae",
    "home": canonical.stated(homes.KAE.home),
    "kinds": [{"name": "zip", "vendor": "1b36", "devices": ["0011"], "virtual": ["ffff"], "module": "hisi_zip"}],
    "resources": [{"class": "uacce", "name": RESOURCE, "socket": "zip", "kind": "zip", "inject": {"openssl": {}}}],
    "allocationPolicy": "Balanced",
}
"""Of the device of QEMU that hisi_zip knows."""

KUBELET = f"""\
import asyncio, json, pathlib, time
from tests.device_plugin import kubelets

async def main():
    entry, before = pathlib.Path("/sys/bus/pci/devices/{ADDRESS}/uacce"), None
    async with kubelets.Kubelet(pathlib.Path("/var/lib/kubelet")) as kubelet:
        while True:
            now = (entry.exists(), sorted(kubelet.healthy("{RESOURCE}")))
            if now != before:
                print(json.dumps([time.monotonic(), *now]), flush=True)
            before = now
            await asyncio.sleep(0.01)

asyncio.run(main())
"""
"""Prints each change: when, whether the device has its entry, and the healthy devices of the kubelet."""

TOLD_S = 15
"""A busy host needs seconds for what is told within one; half the time until the plugin looks by itself."""


@pytest.mark.short
def test_a_device_that_is_pulled_and_put_back_is_told_to_the_kubelet_at_once(boot: conftest.Boot) -> None:
    running = boot(extra=SLOT)
    running.have("2.0.1")
    guest = running.guest
    guest.write("/root/kubelet.py", KUBELET)
    guest.write("/etc/kae/plugin.json", json.dumps(CONFIG))
    _start(guest, "kubelet", "/root/kubelet.py")
    _start(guest, "plugin", "-m device_plugin --config /etc/kae/plugin.json")
    _wait(guest, there=True, healthy=[ADDRESS])

    guest.qmp("device_del", id="card0")
    gone_s, told_gone_s = _wait(guest, there=False, healthy=[])
    guest.qmp("device_add", driver="pvpanic-pci", bus="slot0", id="card0")
    back_s, told_back_s = _wait(guest, there=True, healthy=[ADDRESS])

    assert told_gone_s - gone_s < TOLD_S
    assert told_back_s - back_s < TOLD_S


def _start(guest: machine.Machine, unit: str, arguments: str) -> None:
    output = f"--property=StandardOutput=append:/run/{unit}.log --property=StandardError=append:/run/{unit}.log"
    guest.run(f"systemd-run -q --unit={unit} {output} env {host.ENVIRONMENT} python3 {arguments}")


def _wait(guest: machine.Machine, *, there: bool, healthy: list[str]) -> tuple[float, float]:
    """Wait until the kubelet knows it; return when the kernel had it so, and when the kubelet knew."""
    end_s = time.monotonic() + host.REST_S
    while True:
        known: list[Any] = [json.loads(line) for line in guest.read("/run/kubelet.log").splitlines()]
        if known and known[-1][1:] == [there, healthy]:
            break
        assert time.monotonic() < end_s, f"{known}\n{guest.read('/run/plugin.log')}\n{guest.kernel_log()[-2000:]}"
        time.sleep(0.2)
    since = len(known)
    while since > 1 and known[since - 2][1] == there:
        since -= 1
    return known[since - 1][0], known[-1][0]
