"""What a config asks of this host, as values that can be compared with what is there."""

import hashlib
import json
from collections.abc import Sequence

from installer import config
from installer.host import pci


def digest(settings: config.Config, kernel: str, fingerprint: str) -> str:
    """Differs where another driver is asked for: where its content is another one, not where only the image's tag is.

    Parameters and repositories are no part of a driver's files.
    """
    parts = [settings.source.name, kernel, fingerprint]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def asked(settings: config.Config, wanted: str) -> str:
    """Differs with anything that is asked for, settings or content, so that a repair is tried at once.

    `wanted` is the digest of the driver.
    """
    return hashlib.sha256(f"{settings!r} {wanted}".encode()).hexdigest()


def modules(settings: config.Config, found: Sequence[pci.Function]) -> tuple[str, ...]:
    """The modules that the host needs, in the order of loading: those below all kinds, and those of its devices."""
    kinds = {kind.module for kind in settings.kinds}
    present = {function.kind.module for function in found}
    return tuple(name for name in settings.modules if name not in kinds or name in present)


def options(settings: config.Config) -> dict[str, str]:
    """The texts of the options files, by module (modprobe.d(5))."""
    return {
        module: f"options {module} {' '.join(f'{key}={value}' for key, value in sorted(values.items()))}\n"
        for module, values in sorted(settings.module_parameters.items())
        if values
    }


def has_entries(settings: config.Config, module: str) -> bool:
    """Whether devices of a module get entries: with uacce_mode 0 they serve the kernel alone."""
    return settings.module_parameters.get(module, {}).get("uacce_mode") != 0


def packages(settings: config.Config) -> tuple[str, ...]:
    """The names of the packages to install; none for the other sources."""
    source = settings.source.packages
    names = source.names if source is not None else ()
    return tuple(name.replace("${DRIVER_VERSION}", settings.driver_version) for name in names)
