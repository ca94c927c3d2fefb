"""The host's KAE libraries, which containers get: what is missing, as a runtime mounts an empty folder in silence."""

from device_plugin import config
from device_plugin.host import paths
from runtime import readings


def folder(inject: config.Inject) -> str:
    """Return the host's folder of the libraries that containers get."""
    return inject.libraries_path or f"{paths.LIBRARIES}/lib"


def missing(where: paths.Paths, inject: config.Inject) -> str | None:
    """Return what the host's folder lacks, in a sentence; None when nothing, or when containers get no libraries."""
    if not inject.libraries:
        return None
    place = folder(inject)
    if not any(name.startswith("libwd.so") for name in readings.names(where.on_host(place))):
        return (
            f"'{place}' of the host has no libwd.so, so containers get no KAE libraries: install them there, or name"
            " their folder in devicePlugin.inject.librariesPath."
        )
    engine = f"{place}/engines-{inject.openssl_conf}/kae.so"
    if inject.openssl_conf is not None and not where.on_host(engine).exists():
        return f"'{engine}' of the host is not there, so OpenSSL works in software: install KAE's engine there."
    return None
