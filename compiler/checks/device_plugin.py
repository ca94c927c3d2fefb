"""Rules for what a policy says of its device plugin, and of what containers get from it."""

from collections.abc import Iterator
from typing import Any

from compiler import keywords, wording
from compiler.checks import containers
from compiler.diagnostics import Diagnostic, rule
from compiler.fleet import definitions
from compiler.formats import documents
from runtime import device_plugin_config

_OWN = ("/dev", "/proc", "/run/kae", "/sys")
"""Paths in a container that the runtime or the device plugin fills."""


@rule("device-plugin-settings", "error")
def findings(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """The settings of a device plugin have an effect and contradict none other."""
    if policy.plugin is None:
        return
    for path, message, hint in (*_idle(policy, policy.plugin), *_shared_groups(policy.plugin), *_covered(policy)):
        yield Diagnostic(
            code="device-plugin-settings",
            span=policy.source.span("spec", "devicePlugin", *path),
            message=message,
            hint=hint,
        )
    for name, value in (_given(policy, "inject", "env") or {}).items():
        hint = "Let each pod take it from a Secret: a pod's own variable wins."
        place = ("spec", "devicePlugin", "inject", "env", name)
        yield from containers.credentials(policy.source, place, name, value, hint)


def _given(policy: definitions.Policy, *field: str) -> Any:
    """Return the value that a policy itself gives a field of its device plugin; None without one."""
    path = ("spec", "devicePlugin", *field)
    return policy.source.value(path) if policy.source.has(path) else None


def _idle(policy: definitions.Policy, plugin: definitions.Plugin) -> Iterator[tuple[documents.Path, str, str]]:
    """Yield the settings that are for another one, which is off."""
    if _given(policy, "inject", "librariesPath") is not None and not _given(policy, "inject", "libraries"):
        yield (
            ("inject", "librariesPath"),
            keywords.IDLE_LIBRARIES_PATH,
            "Set libraries: true, or remove librariesPath.",
        )
    if _given(policy, "inject", "opensslSettings") is not None and _given(policy, "inject", "opensslConf") is None:
        yield (
            ("inject", "opensslSettings"),
            keywords.IDLE_OPENSSL_SETTINGS,
            'Set opensslConf to "1.1" or "3.0", or remove opensslSettings.',
        )
    if plugin.device_nodes is not None and policy.installed is not None:
        yield (
            ("deviceNodes",),
            keywords.IDLE_DEVICE_NODES,
            "Use driver.deviceNodes; those of the device plugin are for driver.enabled: false.",
        )


def _shared_groups(plugin: definitions.Plugin) -> Iterator[tuple[documents.Path, str, str]]:
    for resource in plugin.resources:
        if isinstance(resource, device_plugin_config.Vfio) and resource.shares > 1:
            yield (
                ("sharing", resource.kind),
                keywords.SHARED_GROUP,
                f"Remove sharing.{resource.kind}, or set mode.{resource.kind} to uacce.",
            )


def _covered(policy: definitions.Policy) -> Iterator[tuple[documents.Path, str, str]]:
    own = (*_OWN, "/opt/kae") if _given(policy, "inject", "libraries") else _OWN
    for place in _given(policy, "inject", "mounts") or {}:
        within = any(f"{place}/".startswith(f"{folder}/") for folder in own)
        # The runtime would make the folder in that of the host, which the mount shows.
        if within or any(folder.startswith(f"{place}/") for folder in own):
            yield (
                ("inject", "mounts", place),
                f"{wording.quoted(place)} is {'in' if within else 'above'} a folder that the device plugin or the"
                " container runtime fills.",
                "Choose another path in the container.",
            )
