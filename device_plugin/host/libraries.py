"""The host's KAE libraries, which containers get: what is missing, as a runtime mounts an empty folder in silence."""

import re
from collections.abc import Iterable
from pathlib import Path

from device_plugin.host import paths
from runtime import device_plugin_config as config
from runtime import readings

_LIBRARY = re.compile(r"libwd\.so(\.[0-9]+)*")
_FOLDER = f"{paths.LIBRARIES}/lib"


def folders(resources: Iterable[config.Resource]) -> list[str]:
    """Return the host's folders of the libraries that containers get."""
    every = (resource.inject.libraries for resource in resources)
    return list(dict.fromkeys(libraries.path or _FOLDER for libraries in every if libraries is not None))


def missing(where: paths.Paths, resources: Iterable[config.Resource]) -> list[str]:
    """Return what the host's folders lack, in sentences; none when nothing, or when containers get no libraries."""
    every = (_missing(where, resource.inject) for resource in resources)
    return list(dict.fromkeys(lack for lack in every if lack is not None))


def _missing(where: paths.Paths, inject: config.Inject) -> str | None:
    if inject.libraries is None:
        return None
    place = inject.libraries.path or _FOLDER
    seen = where.on_host(place)
    if seen.is_symlink() and (seen.readlink().is_absolute() or not seen.exists()):
        # The runtime follows it on the host; here is no more of the host than the folder above.
        return (
            f"'{place}' of the host is a link to '{seen.readlink()}', where the plugin does not see whether KAE's"
            " libraries are: name that folder in devicePlugin.inject.librariesPath."
        )
    mounted = (seen if inject.libraries.path else seen.parent).resolve()
    if not any(_LIBRARY.fullmatch(name) and _is_within(mounted, seen / name) for name in readings.names(seen)):
        return (
            f"'{place}' of the host has no libwd.so, so containers get no KAE libraries: install them there, or name"
            " their folder in devicePlugin.inject.librariesPath."
        )
    generation = inject.openssl.conf if inject.openssl is not None else None
    engine = f"engines-{generation}/kae.so"
    if generation is not None and not _is_within(mounted, seen / engine):
        return f"'{place}/{engine}' of the host is not there, so OpenSSL works in software: install KAE's engine there."
    return None


def _is_within(mounted: Path, file: Path) -> bool:
    """Return whether a path leads to a file below a folder: containers get this folder, and no other of the host."""
    found = file.resolve()
    return found.is_relative_to(mounted) and found.is_file()
