"""Rules for the device plugin of a KAEPolicy."""

from collections.abc import Iterator

from compiler import devices, wording
from compiler.checks import containers
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.formats import documents

_OWN = ("/dev", "/proc", "/run/kae", "/sys")
"""Paths in a container that the runtime or the device plugin fills."""


def findings(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """Yield the mistakes in the device plugin of a policy; a DevicePolicy has no such settings."""
    if policy.recipe is not devices.KAE:
        return
    for path, message, hint in (*_idle(policy), *_shared_groups(policy), *_covered(policy)):
        yield Diagnostic(
            code="device-plugin-settings",
            span=policy.source.span("spec", "devicePlugin", *path),
            message=message,
            hint=hint,
        )
    for name, value in (policy.spec.devicePlugin.inject.env or {}).items():
        hint = "Let each pod take it from a Secret: a pod's own variable wins."
        place = ("spec", "devicePlugin", "inject", "env", name)
        yield from containers.credentials(policy.source, place, name, value, hint)


def _idle(policy: definitions.Policy) -> Iterator[tuple[documents.Path, str, str]]:
    """Yield the settings that are for another one, which is off."""
    inject, driver = policy.spec.devicePlugin.inject, policy.spec.driver
    if inject.librariesPath is not None and not inject.libraries:
        yield (
            ("inject", "librariesPath"),
            "No container gets the libraries of librariesPath, as 'libraries' is false.",
            "Set libraries: true, or remove librariesPath.",
        )
    if inject.opensslSettings is not None and inject.opensslConf is None:
        yield (
            ("inject", "opensslSettings"),
            "No container gets an openssl.cnf with these settings, as 'opensslConf' is not set.",
            'Set opensslConf to "1.1" or "3.0", or remove opensslSettings.',
        )
    if policy.spec.devicePlugin.deviceNodes is not None and driver.enabled:
        yield (
            ("deviceNodes",),
            "The driver installer sets mode and group of the device nodes, too.",
            "Use driver.deviceNodes; those of the device plugin are for driver.enabled: false.",
        )


def _shared_groups(policy: definitions.Policy) -> Iterator[tuple[documents.Path, str, str]]:
    spec = policy.spec.devicePlugin
    for kind in policy.kinds:
        if getattr(spec.mode, kind.name) == "vfio" and getattr(spec.sharing, kind.name) > 1:
            yield (
                ("sharing", kind.name),
                "An IOMMU group can be opened by one virtual machine alone, so vfio has no shares.",
                f"Remove sharing.{kind.name}, or set mode.{kind.name} to uacce.",
            )


def _covered(policy: definitions.Policy) -> Iterator[tuple[documents.Path, str, str]]:
    inject = policy.spec.devicePlugin.inject
    own = (*_OWN, "/opt/kae") if inject.libraries else _OWN
    for place in inject.mounts or {}:
        within = any(f"{place}/".startswith(f"{folder}/") for folder in own)
        # The runtime would make the folder in that of the host, which the mount shows.
        if within or any(folder.startswith(f"{place}/") for folder in own):
            yield (
                ("inject", "mounts", place),
                f"{wording.quoted(place)} is {'in' if within else 'above'} a folder that the device plugin or the"
                " container runtime fills.",
                "Choose another path in the container.",
            )
