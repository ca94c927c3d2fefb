"""The table of KAE device kinds: PCI ids, modules and parameters, from which resources, rules and configs follow.

A new kind also needs three fields of the language: its switch in model/policy.Operator, its name in
model/policy.Sharing, and its name in model/driver.Sriov. tests/compiler/test_devices.py fails until they exist, and
CONTRIBUTING.md lists all steps. PCI ids, modules and the ranges of their parameters are those of the Linux driver
(drivers/crypto/hisilicon, include/linux/pci_ids.h) and of kunpengcompute/KAE.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

VENDOR = "19e5"
"""PCI vendor id of Huawei; in YAML it needs quotes, as the bare word is the number 1900000."""

DOMAIN = "openfuyao.com"
"""Prefix of the resources and node labels."""

BASE_MODULES = ("uacce", "hisi_qm")
"""The modules that the module of every kind depends on, in the order of loading."""

POOL_PREFIX = f"{DOMAIN}/kae.pool."
"""Prefix of the node labels that NFD sets for the pools of policies; the name of the policy follows."""

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
class Kind:
    """A kind of accelerator: the PCI device ids of its physical and virtual functions, and its module."""

    name: str
    title: str
    switch: str
    """The field of `operator` that enables the kind."""
    pf: str
    vf: str
    module: str
    parameters: Mapping[str, Parameter]

    @property
    def resource(self) -> str:
        """The extended resource that a pod requests."""
        return f"{DOMAIN}/kae.{self.name}"

    @property
    def vfio_resource(self) -> str:
        """The extended resource of its functions for virtual machines; a pod that wants another gets none of them."""
        return f"{self.resource}.vfio"

    @property
    def present(self) -> str:
        """The label of a node that has a device of this kind."""
        return f"{self.resource}.present"

    @property
    def pf_count(self) -> str:
        """The label with the number of a node's physical functions."""
        return f"{self.resource}.pf"

    @property
    def vf_count(self) -> str:
        """The label with the number of a node's virtual functions, which is an effect of `driver.sriov`."""
        return f"{self.resource}.vf"


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
        title="HPRE (public-key work)",
        switch="enabledHPRE",
        pf="a258",
        vf="a259",
        module="hisi_hpre",
        parameters=_parameters(),
    ),
    Kind(
        name="sec",
        title="SEC (ciphers and digests)",
        switch="enabledSEC",
        pf="a255",
        vf="a256",
        module="hisi_sec2",
        parameters=_parameters(
            ctx_q_num=Parameter(least=2, most=32, step=2),
            enable_sm4_ctr=Parameter(least=0, most=1),
        ),
    ),
    Kind(
        name="zip",
        title="ZIP (compression)",
        switch="enabledZIP",
        pf="a250",
        vf="a251",
        module="hisi_zip",
        parameters=_parameters(perf_mode=Parameter(least=0, most=1)),
    ),
)

PRESENT = f"{DOMAIN}/kae.present"
"""The label of a node that has a KAE device of any kind."""

OPT_OUT_DRIVER = f"{DOMAIN}/kae.deploy.driver"
OPT_OUT_DEVICE_PLUGIN = f"{DOMAIN}/kae.deploy.device-plugin"
"""Node labels with which people keep a component away (value "false"); the compiler never sets them."""

_LABELS = (label for kind in KINDS for label in (kind.present, kind.pf_count, kind.vf_count))
DECIDING = tuple(sorted((PRESENT, OPT_OUT_DRIVER, OPT_OUT_DEVICE_PLUGIN, *_LABELS)))
"""The labels that decide over a node under any policy: its devices and its opt-outs."""
