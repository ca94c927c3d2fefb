"""The table of KAE device kinds: the only place where a kind is written down.

Everything else (resource names, NFD rules, module parameters, the programs' config) follows from it, so a
new kind is one entry here. PCI ids, modules and the ranges of their parameters are those of the Linux
driver (drivers/crypto/hisilicon, include/linux/pci_ids.h) and of kunpengcompute/KAE.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

VENDOR = "19e5"
"""PCI vendor id of Huawei; a string, as a YAML reader takes the bare word for the number 1900000."""

DOMAIN = "openfuyao.com"
"""Prefix of the resources and node labels."""

BASE_MODULES = ("uacce", "hisi_qm")
"""What every kind's module stands on, in the order of loading."""

MAX_VFS = 63
"""Virtual functions that one device can have."""

DEVICE_QUEUES = 1024
"""Queues of one device, shared by the physical function (pf_q_num) and its virtual functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The integers that a module parameter takes: from `least` to `most`, in steps."""

    least: int
    most: int
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of accelerator, with the PCI ids of its physical and virtual functions and its module."""

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
        """The extended resource that a pod asks for."""
        return f"{DOMAIN}/kae.{self.name}"

    @property
    def present(self) -> str:
        """The node label that says a device of this kind is there."""
        return f"{self.resource}.present"


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
"""The node label that says a KAE device of any kind is there."""

OPT_OUT_DRIVER = f"{DOMAIN}/kae.deploy.driver"
OPT_OUT_DEVICE_PLUGIN = f"{DOMAIN}/kae.deploy.device-plugin"
"""Node labels by which people keep a component away ("false"); read here, never written."""
