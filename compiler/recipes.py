"""A recipe as a value: the nodes with its hardware, its modules, and the names of its labels and objects."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from runtime import driver_labels, shapes

DOMAIN = "openfuyao.com"
"""Prefix of the node labels, and of KAE's resources."""

_FOREIGN = "npu"
"""No recipe has this name: the feature discovery of openFuyao's NPU operator labels nodes `openfuyao.com/npu.present`.
"""
_STEM = rf"{re.escape(DOMAIN)}/(?!{_FOREIGN}\.)[a-z0-9-]+"
_OWN = re.compile(rf"{re.escape(DOMAIN)}/(?!{_FOREIGN}\.)([^.]+)\.")
_MACHINE = re.compile(rf"{_STEM}\.(present|[a-z0-9-]+\.(present|pf|vf))")
_POOL = re.compile(rf"{_STEM}\.pool\..+")
_COUNT = re.compile(rf"{_STEM}\.[a-z0-9-]+\.(pf|vf)")
_DRIVER = re.compile(rf"{_STEM}\.driver-(version|state)")

Labels = tuple[tuple[str, tuple[str, ...]], ...]
"""Keys of node labels, each with the values that a node may have."""


def is_of_machine(key: str) -> bool:
    """Return whether a label has the shape of those that NodeFeatureRules of a recipe set for devices."""
    return _MACHINE.fullmatch(key) is not None


def is_of_pool(key: str) -> bool:
    """Return whether a label has the shape of those that NodeFeatureRules of a recipe set for pools."""
    return _POOL.fullmatch(key) is not None


def recipe_of(key: str) -> str | None:
    """Return what stands for the name of a recipe in a label of the prefix; None of other labels."""
    found = _OWN.match(key)
    return found[1] if found else None


def is_count(key: str) -> bool:
    """Return whether a label has the shape of those that count the functions of a kind."""
    return _COUNT.fullmatch(key) is not None


def is_of_driver(key: str) -> bool:
    """Return whether a label has the shape of those that say which driver is loaded; they decide nothing."""
    return _DRIVER.fullmatch(key) is not None


class Expression(msgspec.Struct, frozen=True, kw_only=True):
    """MatchExpression of NFD."""

    op: str
    value: tuple[str, ...] = ()


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """FeatureMatcherTerm of NFD: conditions on the attributes of a feature such as `cpu.cpuid`, all of which hold."""

    feature: str
    matchExpressions: Mapping[str, Expression]  # noqa: N815 - as NFD spells it
    """By attribute."""


class Queues(msgspec.Struct, frozen=True, kw_only=True):
    """The queues of a device, which its physical function and its virtual functions share."""

    number: int
    kept: int
    """Those that a physical function keeps unless the policy says otherwise."""
    parameter: str
    """The module's parameter that says so."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of PCI devices of a recipe: NFD labels the nodes that have one, and counts the functions."""

    recipe: str
    name: str
    vendor: str
    """PCI vendor id, as device ids four hexadecimal digits."""
    devices: tuple[str, ...]
    """PCI device ids of physical functions; none: every device of the vendor and the classes."""
    virtual: tuple[str, ...] = ()
    """PCI device ids of virtual functions."""
    classes: tuple[str, ...] = ()
    """PCI classes that its functions have; none: any."""
    module: str = ""
    """The module of its devices; empty if the recipe does not say."""
    queues: Queues | None = None
    """None where virtual functions need none."""

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


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a node may have the hardware of a recipe: a function of one of the kinds, and all features."""

    kinds: tuple[Kind, ...] = ()
    features: tuple[Feature, ...] = ()


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel module of a recipe."""

    name: str
    kind: str | None = None
    """The kind whose policies load it; None: all do."""
    optional: bool = False
    """A policy may leave it out."""
    replaces: tuple[str, ...] = ()
    """Modules of the kernel that are unloaded before it is loaded, and come back where it goes."""
    network: bool = False
    """Network interfaces hang on it."""
    parameters: Mapping[str, Mapping[str, Any]] = {}
    """The JSON Schema of each of its parameters, perhaps with a default."""
    in_tree: Mapping[str, Mapping[str, Any]] = {}
    """The keywords of these schemas that are others where the module is the kernel's own."""


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a recipe's driver is known to support."""

    systems: tuple[str, ...]
    """Beginnings of the names of operating systems."""
    kernels: tuple[str, ...]
    """Beginnings of the versions of kernels."""
    refused: str
    """A part of the versions of kernels that it does not support."""

    def has_system(self, os_image: str) -> bool:
        """Return whether it supports an operating system, given as a node's status names it."""
        return os_image.startswith(self.systems)

    def has_kernel(self, version: str) -> bool:
        """Return whether it supports a kernel, given as `uname -r` prints it."""
        return version.startswith(self.kernels) and self.refused not in version


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """How sentences name a recipe and its parts."""

    software: str
    """Its software, such as `KAE`."""
    devices: str
    """Its devices, such as `KAE devices`."""
    device: str
    """One of them, such as `a KAE device`."""
    installer: str
    """The beginning of sentences about one of its driver installers."""
    suffix: str
    """What follows a noun that could be of another recipe: ` of recipe 'x'`, or nothing."""
    heading: str
    """The title of what is of it alone: `recipe x`, or nothing."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The software of certain nodes, and the names that its labels and objects have."""

    name: str
    words: Words
    home: shapes.Home
    """The places of its programs on the host."""
    folder: str
    """The folder of its programs in the output of a cluster; empty where each is in that of its component."""
    builtin: bool = False
    """True for the recipe that is part of the compiler: it comes first, and answers for programs need not name it."""
    kinds: tuple[Kind, ...] = ()
    labels: Labels = ()
    """Without kinds: the labels that all nodes with its hardware have; none: every node is one."""
    features: tuple[Feature, ...] = ()
    """Further features by which NFD knows its hardware, all of them."""
    alternatives: tuple[Alternative, ...] = ()
    """Further conditions, of which one holds; none: no further ones."""
    extended: Mapping[str, str] = {}
    """Resources that NFD gives the nodes with its hardware, each with its amount."""
    programs: tuple[str, ...] = ()
    """The names of vendors' programs that it brings."""
    admission: tuple[Mapping[str, Any], ...] = ()
    """What the API server adds to pods that ask for its resources, as the document says it."""
    support: Support | None = None
    """None: any node with its hardware."""
    modules: tuple[Module, ...] = ()
    """The modules whose parameters a policy may set, where the schema of its policies does not know them."""
    is_tried: bool = False
    """True where the Jobs of `kae smoke` can use its devices."""
    labels_images: bool = False
    """True where the images of its driver have labels that tell what is in them: docs/driver-image.md."""
    operator_images: tuple[str, ...] = ()
    """The images of the operator that brought its software to nodes before, which have no program of this project."""

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
    def driver_version(self) -> str:
        """The node label with the version of the loaded driver, as its installer told it."""
        return f"{DOMAIN}/{driver_labels.version_feature(self.name)}"

    @property
    def driver_state(self) -> str:
        """The node label with the state of the driver, one of `driver_labels.STATES`."""
        return f"{DOMAIN}/{driver_labels.state_feature(self.name)}"

    @property
    def opt_out_driver(self) -> str:
        """The node label with which people keep the driver installer away (value "false"); we never set it."""
        return f"{DOMAIN}/{self.name}.deploy.driver"

    @property
    def opt_out_device_plugin(self) -> str:
        """The node label with which people keep the device plugin away (value "false"); we never set it."""
        return f"{DOMAIN}/{self.name}.deploy.device-plugin"

    @property
    def opt_outs(self) -> tuple[str, ...]:
        """The labels of all opt-outs."""
        return self.opt_out_driver, self.opt_out_device_plugin, *map(self.opt_out, self.programs)

    def opt_out(self, program: str) -> str:
        """Return the node label with which people keep a program away (value "false"); we never set it."""
        return f"{DOMAIN}/{self.name}.deploy.{program}"

    @property
    def components(self) -> tuple[str, ...]:
        """The parts of it that run on nodes."""
        return "driver", "device-plugin", *self.programs

    def app(self, component: str) -> str:
        """Return the app label of a component's pods, and the stem of the names of its objects."""
        return f"{self.name}-{component}"

    @property
    def hardware(self) -> Labels:
        """The labels of nodes with its hardware, of whichever kind; none: every node is one."""
        return ((self.present, ("true",)),) if self.kinds else self.labels

    @property
    def deciding(self) -> tuple[str, ...]:
        """The labels that decide over a node under any policy, sorted: its hardware and its opt-outs."""
        counted = (label for kind in self.kinds for label in (kind.present, kind.pf_count, kind.vf_count))
        hardware = (key for key, _ in self.hardware)
        return tuple(sorted({*hardware, *self.opt_outs, *counted}))

    @property
    def driver(self) -> str:
        """The app label of its driver installers, and the stem of the names of their objects."""
        return f"{self.name}-driver"

    @property
    def device_plugin(self) -> str:
        """The app label of its device plugins, and the stem of the names of their objects."""
        return f"{self.name}-device-plugin"
