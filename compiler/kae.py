"""KAE's recipe: its kinds of devices, modules and images, in the fields that a Recipe document has.

A new kind is one entry of `KINDS`: the fields of the language, labels, resources, rules and configs follow from it. PCI
ids, modules and the ranges of their parameters are those of the Linux driver (drivers/crypto/hisilicon,
include/linux/pci_ids.h) and of kunpengcompute/KAE.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from compiler import keywords, names, recipes, release
from runtime import driver_config, shapes

NAME = names.RECIPE
TITLE = "Kunpeng Accelerator Engine"
VENDOR = "19e5"
"""PCI vendor id of Huawei; in YAML it needs quotes, as the bare word is the number 1900000."""
QUEUES = recipes.Queues(number=1024, kept=256, parameter="pf_q_num")
BASE_MODULES = ("uacce", "hisi_qm")
"""The modules that the module of every kind depends on, in the order of loading."""
MAX_VFS = 63
"""The most virtual functions of one device."""

HOME = shapes.Home(state="/var/lib/kae", run="/run/kae", prefix="kae", tree=".kae-", files="/opt/kae")
INSTALLER, PLUGIN = keywords.INSTALLER_IMAGE, keywords.PLUGIN_IMAGE
"""The names of its images."""


def program(name: str) -> Mapping[str, str]:
    """Return the parts of the image of a program, by the name that it has in recipes."""
    image = {INSTALLER: "kae-driver-installer", PLUGIN: "kae-device-plugin"}[name]
    return {"repository": release.REPOSITORY, "image": image, "version": release.version(image)}


def _integer(minimum: int, maximum: int, **more: int) -> Mapping[str, Any]:
    return {"type": "integer", "minimum": minimum, "maximum": maximum, **more}


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of KAE devices, as the table below has it."""

    name: str
    use: str
    """The work that it does, in a word or two."""
    enabled: bool = False
    """True when a policy serves it unless it says otherwise."""
    pf: str
    """PCI device id of its physical functions."""
    vf: str
    """PCI device id of its virtual functions."""
    module: str
    parameters: Mapping[str, Mapping[str, Any]] = {}
    """The schemas of the module's own parameters."""

    @property
    def switch(self) -> str:
        """The field of `operator` that enables the kind."""
        return f"enabled{self.name.upper()}"

    @property
    def plural(self) -> str:
        """Its devices in sentences."""
        return f"{self.name.upper()} devices"

    @property
    def resource(self) -> str:
        """The extended resource that a pod requests."""
        return f"{recipes.DOMAIN}/{NAME}.{self.name}"

    @property
    def vfio_resource(self) -> str:
        """The extended resource of its functions for virtual machines; a pod that wants another gets none of them."""
        return f"{self.resource}.vfio"


KINDS = (
    Kind(name="hpre", use="public-key work", enabled=True, pf="a258", vf="a259", module="hisi_hpre"),
    Kind(
        name="sec",
        use="ciphers and digests",
        pf="a255",
        vf="a256",
        module="hisi_sec2",
        parameters={"ctx_q_num": _integer(2, 32, multipleOf=2), "enable_sm4_ctr": _integer(0, 1)},
    ),
    Kind(
        name="zip",
        use="compression",
        pf="a250",
        vf="a251",
        module="hisi_zip",
        parameters={"perf_mode": _integer(0, 1)},
    ),
)

_COMMON: Mapping[str, Mapping[str, Any]] = {
    "uacce_mode": _integer(0, 2, default=2),
    "pf_q_num": _integer(2, QUEUES.number, default=QUEUES.kept),
    "vfs_num": _integer(0, MAX_VFS),
}
_IN_TREE: Mapping[str, Mapping[str, Any]] = {"uacce_mode": {"maximum": 1, "default": 1}}
"""Shared virtual addresses are all that the kernel's own modules know; KAE's work with 2."""


_OF_KINDS = tuple(
    recipes.Module(name=kind.module, kind=kind.name, parameters={**_COMMON, **kind.parameters}, in_tree=_IN_TREE)
    for kind in KINDS
)
MODULES = (*(recipes.Module(name=name) for name in BASE_MODULES), *_OF_KINDS)
"""In the order of loading."""
FILES = (driver_config.HostFiles(from_=HOME.files, to=HOME.files),)
"""Its libraries and engines."""
ABOVE = ("hisi_acc_vfio_pci", "hisi_migration")
"""Modules of live migration, which use hisi_qm."""
RELATED = ("hisi_rde", "hisi_trng", "hisi_trng_v2")
"""Modules that KAE's own packages of other releases hold, too."""

RECIPE = recipes.Recipe(
    name=NAME,
    builtin=True,
    words=recipes.Words(
        software="KAE",
        devices="KAE devices",
        device="a KAE device",
        installer="A KAE driver installer",
        suffix="",
        heading="",
    ),
    home=HOME,
    folder="",
    kinds=tuple(
        recipes.Kind(
            recipe=NAME,
            name=kind.name,
            vendor=VENDOR,
            devices=(kind.pf,),
            virtual=(kind.vf,),
            module=kind.module,
            queues=QUEUES,
        )
        for kind in KINDS
    ),
    # What KAE 2.x supports (kunpengcompute/KAE, release notes and env-check.sh, which refuses the kernel of openEuler
    # 22.03 without a service pack).
    support=recipes.Support(
        systems=("openEuler 22.03", "openEuler 24.03", "EulerOS", "TencentOS"),
        kernels=("5.4.", "5.10.", "5.15.", "6.6."),
        refused="oe2203.",
    ),
    modules=_OF_KINDS,
    is_tried=True,
    labels_images=True,
    operator_images=(
        "kae-operator",
        *(f"{release.OPERATOR_REPOSITORY}/{image}" for image in ("kae-driver-installer", "kae-device-plugin")),
    ),
)
