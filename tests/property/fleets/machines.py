"""Random nodes: their devices, kernels and labels, as a Node shows them and as NFD's worker reports them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.property import matcher, nfd_rules

KAE = "openfuyao.com/kae"
IDS = {"hpre": ("a258", "a259"), "sec": ("a255", "a256"), "zip": ("a250", "a251")}
"""Device ids of the physical and virtual functions of each kind."""

OTHERS = ({"vendor": "19e5", "device": "a222"}, {"vendor": "8086", "device": "a258"})
"""Devices that only look like ours: by their vendor, and by their id."""

KERNELS = (
    "4.19.90-2107.6.0.0192.8.oe1.bclinux.aarch64",
    "5.4.241-1-tlinux4-0017.7",
    "5.10.0-60.18.0.50.oe2203.aarch64",
    "5.10.0-136.12.0.86.oe2203sp1.aarch64",
    "5.10.0-216.0.0.115.oe2203sp4.aarch64",
    "5.10.0-216.0.0.115.oe2203sp4.aarch64+",
    "5.10.0-216.0.0.115.v44.oe2203sp4.aarch64+",
    "5.10.0-182.0.0.95.r2220_156.hce2.aarch64",
    "6.6.0-28.0.0.34.oe2403.aarch64",
    "6.6.0-72.0.0.76.oe2403sp1.aarch64",
    "6.6.0-72.0.0.76.oe2403sp1.aarch64+debug",
    "6.6-rc7",
    "6.12.0~rc1-7.aarch64",
)
"""As `uname -r` prints them; no character but a letter, a digit, `.`, `_` or `-` comes through NFD."""

POOLS = tuple(f"p{number}" for number in range(36))
INTEGERS = ("0", "1", "2", "05", "5", "7", "12")
VALUES: Mapping[str, Sequence[str]] = {
    "pool": POOLS,
    "zone": ("a", "b", "c"),
    "gen": (*INTEGERS, "9223372036854775807", "9223372036854775808", "old", ""),
    "example.com/disk": ("ssd", ""),
}
"""The labels that people give, by key."""

HOSTNAME = "kubernetes.io/hostname"
TAINT_KEYS = ("dedicated", "gpu")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
LIFECYCLE = (
    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine in a cluster."""

    name: str
    kernel: str
    labels: Mapping[str, str]
    """Of people and of the kubelet."""
    taints: tuple[Mapping[str, str], ...]
    functions: Mapping[str, tuple[int, int]]
    """Physical and virtual functions by kind; a guest has virtual ones alone."""
    others: tuple[Mapping[str, str], ...]
    """Other PCI devices."""
    reported: bool
    """True when NFD's worker has reported the machine."""
    cards: tuple[int, int] = (0, 0)
    """Physical and virtual functions of network cards, which only a recipe asks for."""
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What else NFD's worker reports, by feature and name."""
    architecture: str = "arm64"

    @property
    def features(self) -> nfd_rules.Features:
        """Return the features that NFD's worker reports."""
        if not self.reported:
            return nfd_rules.UNREPORTED
        devices = [
            {"vendor": "19e5", "device": device}
            for kind, counts in self.functions.items()
            for device, count in zip(IDS[kind], counts, strict=True)
            for _ in range(count)
        ]
        return nfd_rules.Features(
            attributes={
                "kernel.version": {"full": matcher.clean(self.kernel)},
                "system.name": {"nodename": self.name},
                **self.attributes,
            },
            instances={"pci.device": (*devices, *self.others, *self._cards)},
        )

    @property
    def _cards(self) -> list[dict[str, str]]:
        counted = zip(("0b03", "1b03"), self.cards, strict=True)
        return [
            {"vendor": "1924", "device": device, "class": "0200"} for device, count in counted for _ in range(count)
        ]

    @property
    def device_labels(self) -> dict[str, str]:
        """The labels that tell of its devices, as people were promised them."""
        found = {}
        for kind, counts in self.functions.items() if self.reported else ():
            for function, count in zip(("pf", "vf"), counts, strict=True):
                if count:
                    found[f"{KAE}.{kind}.{function}"] = str(count)
                    found[f"{KAE}.{kind}.present"] = found[f"{KAE}.present"] = "true"
        return found

    def node(self, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return the Node as the API server prints it, with these labels of our rules."""
        own = {"feature.node.kubernetes.io/cpu-model.vendor_id": "HiSilicon"} if self.reported else {}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {**self.labels, **own, **labels}},
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {
                "nodeInfo": {
                    "architecture": self.architecture,
                    "kernelVersion": self.kernel,
                    "kubeletVersion": "v1.31.4",
                    "osImage": "openEuler 22.03 (LTS-SP4)",
                }
            },
        }


def machine(draw: random.Random, name: str, kernels: Sequence[str], pools: Sequence[str]) -> Machine:
    """Return a machine of a fleet that runs these kernels, in these pools."""
    return Machine(
        name=name,
        kernel=draw.choice(kernels),
        labels=_labels(draw, name, pools),
        taints=tuple(_taints(draw)),
        functions=_functions(draw),
        others=tuple(device for device in OTHERS if draw.random() < 0.2),
        reported=draw.random() < 0.93,
    )


def _labels(draw: random.Random, name: str, pools: Sequence[str]) -> dict[str, str]:
    found = {}
    for key, values in VALUES.items():
        if draw.random() < (0.93 if key == "pool" else 0.7):
            found[key] = draw.choice(pools if key == "pool" else values)
    if draw.random() < 0.95:
        found[HOSTNAME] = name if draw.random() < 0.9 else f"{name}.example.com"
    for component in ("driver", "device-plugin"):
        if draw.random() < 0.06:
            found[f"{KAE}.deploy.{component}"] = draw.choice(("false", "false", "true"))
    return found


def _taints(draw: random.Random) -> list[dict[str, str]]:
    found = []
    if draw.random() < 0.2:
        taint = {"key": draw.choice(TAINT_KEYS), "effect": draw.choice(EFFECTS)}
        found.append(taint | ({"value": "x"} if draw.random() < 0.5 else {}))
    if draw.random() < 0.1:
        found.append(dict(draw.choice(LIFECYCLE)))
    return found


def _functions(draw: random.Random) -> dict[str, tuple[int, int]]:
    found = {}
    for kind in IDS if draw.random() < 0.88 else ():
        if draw.random() < 0.75:
            physical = draw.choice((0, 1, 2, 2, 4))
            found[kind] = physical, draw.choice((0, 0, 1, 3) if physical else (1, 2))
    return found
