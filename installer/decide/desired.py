"""The desired state of this host according to its config."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from installer.host import pci, record
from runtime import driver_config, driver_work


def digest(settings: driver_config.Config, kernel: str, fingerprint: str) -> str:
    """Return a digest of the desired driver's content, without the image's tag, parameters and repositories."""
    parts = [settings.source.name, kernel, fingerprint]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def asked(settings: driver_config.Config, wanted: str) -> str:
    """Return two digests, of what the kernel is to load and of the whole config; see `record.same_load`."""
    parts = [settings.state, wanted, settings.names, options(settings), sorted(settings.sriov.items())]
    texts = (json.dumps(parts), f"{settings!r} {wanted}")
    return "-".join(hashlib.sha256(text.encode()).hexdigest() for text in texts)


def modules(settings: driver_config.Config, functions: Sequence[pci.Function]) -> tuple[str, ...]:
    """Return the modules that the host needs, in the order of loading: the common ones and those of its devices."""
    return driver_work.needed(settings, {function.kind.module for function in functions})


def enabled(settings: driver_config.Config, functions: Sequence[pci.Function]) -> tuple[pci.Function, ...]:
    """Return the functions of the enabled kinds: those whose module is to be loaded."""
    return tuple(function for function in functions if function.kind.module in settings.names)


def loading(settings: driver_config.Config) -> dict[str, Any]:
    """Return how the modules are to be loaded, as fields of a `record.Driver`."""
    return {"options": options(settings), "parameters": settings.parameters}


def resources(settings: driver_config.Config, known: record.Record) -> tuple[str, ...]:
    """Return the resources of which pods may hold a device, also those that only an earlier config had."""
    return tuple(sorted({*settings.resources, *known.resources}))


def options(settings: driver_config.Config) -> dict[str, str]:
    """Return the texts of the options files, by module (modprobe.d(5)).

    With vfs_num, virtual functions exist as soon as udev has loaded the driver at boot (KAE's and Linux'
    drivers/crypto/hisilicon/zip/zip_main.c, hisi_zip_probe).
    """
    counts = {kind.module: settings.sriov.get(kind.name, 0) for kind in settings.kinds}
    modules, texts = sorted(settings.modules, key=lambda module: module.name), {}
    for module in modules:
        told = {"vfs_num": counts[module.name]} if counts.get(module.name) else {}
        if values := sorted((told | module.parameters).items()):
            stated = " ".join(f"{key}={_quoted(value)}" for key, value in values)
            texts[module.name] = f"options {module.name} {stated}\n"
    for module in modules:
        # Of one name, depmod prefers the new module.
        for name in module.replaces:
            if name not in settings.names:
                texts[module.name] = f"{texts.get(module.name, '')}blacklist {name}\n"
    return texts


def _quoted(value: driver_config.Parameter) -> str:
    """Return a value as the kernel splits them (next_arg of its lib/cmdline.c); its bool takes 0 and 1, too."""
    if isinstance(value, str):
        return f'"{value}"' if re.search(r"\s|^$", value) else value
    return str(int(value))


def is_shown(value: driver_config.Parameter, shown: str | None) -> bool:
    """Return whether the kernel shows a parameter so that has this value: it prints bool as Y and N."""
    if isinstance(value, bool):
        return shown in (("Y", "y", "1") if value else ("N", "n", "0"))
    if isinstance(value, int) and re.fullmatch(r"0x[0-9a-fA-F]+", shown or ""):
        return int(shown or "", 16) == value
    return shown == str(value).strip()


def has_entries(settings: driver_config.Config, module: str) -> bool:
    """Return whether devices of a module get entries: with uacce_mode 0 only the kernel uses them."""
    return settings.parameters.get(module, {}).get("uacce_mode") != 0
