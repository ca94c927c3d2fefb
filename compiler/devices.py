"""The table of KAE device kinds: PCI ids, modules and parameters, from which resources, rules and configs follow.

A new kind is one entry: the fields of the language, resources, rules and configs follow from it. PCI ids, modules and
the ranges of their parameters are those of the Linux driver (drivers/crypto/hisilicon, include/linux/pci_ids.h) and of
kunpengcompute/KAE.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from compiler import recipes

VENDOR = "19e5"
"""PCI vendor id of Huawei; in YAML it needs quotes, as the bare word is the number 1900000."""

DOMAIN = recipes.DOMAIN
"""Prefix of the resources and node labels."""

BASE_MODULES = ("uacce", "hisi_qm")
"""The modules that the module of every kind depends on, in the order of loading."""

MAX_VFS = 63
"""The most virtual functions of one device."""

DEVICE_QUEUES = 1024
"""Queues of one device, divided between the physical function (pf_q_num) and its virtual functions."""

PF_QUEUES = 256
"""The queues that a physical function keeps unless the policy sets pf_q_num."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The integers that a module parameter accepts: from `least` to `most`, in steps."""

    least: int
    most: int
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(recipes.Kind):
    """A kind of accelerator: the PCI device ids of its physical and virtual functions, and its module."""

    vendor: str = VENDOR
    use: str
    """The work that it does, in a word or two."""
    enabled: bool = False
    """True when a policy serves it unless it says otherwise."""
    module: str
    parameters: Mapping[str, Parameter]

    @property
    def switch(self) -> str:
        """The field of `operator` that enables the kind."""
        return f"enabled{self.name.upper()}"

    @property
    def plural(self) -> str:
        """Its devices in sentences."""
        return f"{self.name.upper()} devices"

    @property
    def pf(self) -> str:
        """The PCI device id of its physical functions."""
        return self.devices[0]

    @property
    def vf(self) -> str:
        """The PCI device id of its virtual functions."""
        return self.virtual[0]

    @property
    def resource(self) -> str:
        """The extended resource that a pod requests."""
        return self.stem

    @property
    def vfio_resource(self) -> str:
        """The extended resource of its functions for virtual machines; a pod that wants another gets none of them."""
        return f"{self.resource}.vfio"


def _parameters(**more: Parameter) -> Mapping[str, Parameter]:
    common = {
        "uacce_mode": Parameter(least=0, most=2),
        "pf_q_num": Parameter(least=2, most=DEVICE_QUEUES),
        "vfs_num": Parameter(least=0, most=MAX_VFS),
    }
    return MappingProxyType(common | more)


KINDS: tuple[Kind, ...] = (
    Kind(
        name="hpre",
        use="public-key work",
        enabled=True,
        devices=("a258",),
        virtual=("a259",),
        module="hisi_hpre",
        parameters=_parameters(),
    ),
    Kind(
        name="sec",
        use="ciphers and digests",
        devices=("a255",),
        virtual=("a256",),
        module="hisi_sec2",
        parameters=_parameters(
            ctx_q_num=Parameter(least=2, most=32, step=2),
            enable_sm4_ctr=Parameter(least=0, most=1),
        ),
    ),
    Kind(
        name="zip",
        use="compression",
        devices=("a250",),
        virtual=("a251",),
        module="hisi_zip",
        parameters=_parameters(perf_mode=Parameter(least=0, most=1)),
    ),
)

KAE = recipes.Recipe(name="kae", devices="KAE devices", kinds=KINDS)
"""The built-in recipe, whose policies are KAEPolicies."""

POOL_PREFIX = KAE.pool_prefix
OPT_OUT_DRIVER = KAE.opt_out_driver
OPT_OUT_DEVICE_PLUGIN = KAE.opt_out_device_plugin
DECIDING = KAE.deciding
