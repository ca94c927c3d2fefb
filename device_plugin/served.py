"""The kinds of PCI functions that the resources of a config offer."""

import msgspec

from runtime import device_plugin_config as config
from runtime import shapes


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of PCI functions, as its resource offers it."""

    pci: shapes.Kind
    resource: str
    vfio: bool = False
    """True where functions that are bound to vfio-pci are offered, as IOMMU groups; else by the class uacce."""
    masked: bool = False
    """True where a container sees its own devices only, below /sys/class/uacce."""

    @property
    def stem(self) -> str:
        """Return the beginning of the names of its devices in links and, by the class uacce, in containers."""
        return self.pci.module or self.pci.name


def kinds(settings: config.Config) -> tuple[Kind, ...]:
    """Return the kinds that a config offers, in the order of its resources."""
    known = {kind.name: kind for kind in settings.kinds}
    return tuple(
        Kind(
            pci=known[resource.kind],
            resource=resource.name,
            vfio=isinstance(resource, config.Vfio),
            masked=isinstance(resource, config.Uacce) and resource.mask_sysfs,
        )
        for resource in settings.resources
        if isinstance(resource, config.Vfio | config.Uacce)
    )
