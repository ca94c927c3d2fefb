"""A recipe as the compiler's line sees it: the nodes with its hardware, and the names of its labels and objects.

KAE is the built-in recipe (`devices.KAE`); the others are documents of a project.
"""

import re
from dataclasses import dataclass

DOMAIN = "openfuyao.com"
"""Prefix of the node labels, and of KAE's resources."""

_FOREIGN = "npu"
"""No recipe has this name: the feature discovery of openFuyao's NPU operator labels nodes `openfuyao.com/npu.present`.
"""
_STEM = rf"{re.escape(DOMAIN)}/(?!{_FOREIGN}\.)[a-z0-9-]+"
_MACHINE = re.compile(rf"{_STEM}\.(present|[a-z0-9-]+\.(present|pf|vf))")
_POOL = re.compile(rf"{_STEM}\.pool\..+")
_COUNT = re.compile(rf"{_STEM}\.[a-z0-9-]+\.(pf|vf)")

Labels = tuple[tuple[str, tuple[str, ...]], ...]
"""Keys of node labels, each with the values that a node may have."""


def is_of_machine(key: str) -> bool:
    """Return whether a label has the shape of those that NodeFeatureRules of a recipe set for devices."""
    return _MACHINE.fullmatch(key) is not None


def is_of_pool(key: str) -> bool:
    """Return whether a label has the shape of those that NodeFeatureRules of a recipe set for pools."""
    return _POOL.fullmatch(key) is not None


def is_count(key: str) -> bool:
    """Return whether a label has the shape of those that count the functions of a kind."""
    return _COUNT.fullmatch(key) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition on an attribute of a feature (MatchExpression of NFD)."""

    attribute: str
    operator: str
    values: tuple[str, ...] = ()


Features = tuple[tuple[str, tuple[Condition, ...]], ...]
"""Features of NFD, such as `cpu.cpuid`, each with its conditions; all of them hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of PCI devices of a recipe: NFD labels the nodes that have one, and counts the functions."""

    recipe: str = "kae"
    name: str
    vendor: str
    """PCI vendor id, as device ids four hexadecimal digits."""
    devices: tuple[str, ...]
    """PCI device ids of physical functions; none: every device of the vendor and the classes."""
    virtual: tuple[str, ...] = ()
    """PCI device ids of virtual functions."""
    classes: tuple[str, ...] = ()
    """PCI classes that its functions have; none: any."""

    @property
    def stem(self) -> str:
        """The beginning of its labels."""
        return f"{DOMAIN}/{self.recipe}.{self.name}"

    @property
    def present(self) -> str:
        """The label of a node that has a device of this kind."""
        return f"{self.stem}.present"

    @property
    def pf_count(self) -> str:
        """The label with the number of a node's physical functions."""
        return f"{self.stem}.pf"

    @property
    def vf_count(self) -> str:
        """The label with the number of a node's virtual functions, which is an effect of `driver.sriov`."""
        return f"{self.stem}.vf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A stack of software for certain nodes, and the names that its labels and objects have."""

    name: str
    devices: str
    """Its devices in sentences, such as `KAE devices`."""
    kinds: tuple[Kind, ...] = ()
    labels: Labels = ()
    """Without kinds: the labels that all nodes with its hardware have; none: every node is one."""
    features: Features = ()
    """Without kinds: the features by which NFD knows its hardware, and labels it as present."""

    @property
    def is_everywhere(self) -> bool:
        """True when it is for every node that a policy selects, whatever its hardware is."""
        return not self.kinds and not self.labels

    @property
    def has_rules(self) -> bool:
        """True when NodeFeatureRules of ours find its hardware, so that NFD has to see a node first."""
        return bool(self.kinds) or any(key == self.present for key, _ in self.labels)

    @property
    def present(self) -> str:
        """The label of a node with its hardware."""
        return f"{DOMAIN}/{self.name}.present"

    @property
    def pool_prefix(self) -> str:
        """Prefix of the node labels that NFD sets for the pools of policies; the name of the policy follows."""
        return f"{DOMAIN}/{self.name}.pool."

    @property
    def opt_out_driver(self) -> str:
        """The node label with which people keep the driver installer away (value "false"); we never set it."""
        return f"{DOMAIN}/{self.name}.deploy.driver"

    @property
    def opt_out_device_plugin(self) -> str:
        """The node label with which people keep the device plugin away (value "false"); we never set it."""
        return f"{DOMAIN}/{self.name}.deploy.device-plugin"

    @property
    def run_dir(self) -> str:
        """The host's folder for what its programs share until the next boot."""
        return "/run/kae" if self.name == "kae" else f"/run/kae/recipes/{self.name}"

    @property
    def hardware(self) -> Labels:
        """The labels of nodes with its hardware, of whichever kind; none: every node is one."""
        return ((self.present, ("true",)),) if self.kinds else self.labels

    @property
    def deciding(self) -> tuple[str, ...]:
        """The labels that decide over a node under any policy, sorted: its hardware and its opt-outs."""
        counted = (label for kind in self.kinds for label in (kind.present, kind.pf_count, kind.vf_count))
        hardware = (key for key, _ in self.hardware)
        return tuple(sorted({*hardware, self.opt_out_driver, self.opt_out_device_plugin, *counted}))

    @property
    def driver(self) -> str:
        """The app label of its driver installers, and the stem of the names of their objects."""
        return f"{self.name}-driver"

    @property
    def device_plugin(self) -> str:
        """The app label of its device plugins, and the stem of the names of their objects."""
        return f"{self.name}-device-plugin"
