"""What `status` and `plan` say: a value, and its text for people or for programs."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from tabulate import tabulate

from installer import config, observation, outline, pci, verdict

_TABLE = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a host stands, and what would be done."""

    kernel: str
    system: str
    secure_boot: bool
    changing: bool
    driver: str
    modules: tuple[tuple[str, str, str, str], ...]
    """Name, version, parameters, the file that modprobe would take."""
    devices: tuple[tuple[str, str, str, str, str], ...]
    """Address, kind, entry, mode of its device node, virtual functions."""
    holders: tuple[str, ...]
    verdict: str
    reasons: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    """Name and reason."""
    last: str
    """The last try that did not succeed."""


def report(
    settings: config.Config,
    seen: observation.Seen,
    judged: verdict.Verdict,
    steps: Iterable[outline.Step],
    holders: Sequence[str],
) -> Report:
    """Everything about a host that people ask for."""
    attempt = seen.record.attempt
    return Report(
        kernel=seen.kernel,
        system=seen.system,
        secure_boot=seen.secure_boot,
        changing=seen.changing,
        driver=_driver(seen),
        modules=tuple(_module(seen, name) for name in settings.modules),
        devices=tuple(_device(found) for found in seen.functions),
        holders=tuple(holders),
        verdict=judged.kind.value,
        reasons=judged.reasons,
        steps=tuple((step.name, step.reason) for step in steps),
        last=f"{attempt.state}: {attempt.reason}" if attempt else "",
    )


def as_json(found: Report) -> str:
    """One object, with `version` 1."""
    data = {"version": 1, **asdict(found)}
    data["modules"] = [dict(zip(("name", "version", "parameters", "file"), row, strict=True)) for row in found.modules]
    keys = ("address", "kind", "entry", "mode", "vfs")
    data["devices"] = [dict(zip(keys, row, strict=True)) for row in found.devices]
    data["steps"] = [{"name": name, "reason": reason} for name, reason in found.steps]
    return json.dumps(data, indent=2)


def as_status(found: Report) -> str:
    """The host, for people."""
    facts = [
        ("Kernel", found.kernel),
        ("System", found.system),
        ("Secure boot", "on: modules need a signature that the kernel trusts" if found.secure_boot else "off"),
        ("Driver", found.driver),
        ("Verdict", found.verdict),
    ]
    if found.changing:
        facts.append(("Changing", "driver-changing is there: the device plugin gives nobody a device"))
    if found.last:
        facts.append(("Last try", found.last))
    parts = [tabulate([(f"{name}:", value) for name, value in facts], tablefmt=_TABLE)]
    parts.append("\n".join(f"  {reason}" for reason in found.reasons))
    headers = ("MODULE", "VERSION", "PARAMETERS", "FILE")
    parts.append(tabulate(found.modules, headers=headers, tablefmt=_TABLE, disable_numparse=True))
    headers_of_devices = ("DEVICE", "KIND", "ENTRY", "MODE", "VFS")
    devices = tabulate(found.devices, headers=headers_of_devices, tablefmt=_TABLE, disable_numparse=True)
    parts.append(devices if found.devices else "There is no KAE device.")
    if found.holders:
        parts.append("\n".join(["Devices are held by", *(f"  {holder}" for holder in found.holders)]))
    return "\n\n".join(parts)


def as_plan(found: Report) -> str:
    """What would be done, for people."""
    lines = [*found.reasons]
    if not found.steps:
        return "\n".join([*lines, "Nothing is to be done."])
    numbered = [(f"{number}.", name, reason) for number, (name, reason) in enumerate(found.steps, start=1)]
    width = max(len(name) for _, name, _ in numbered)
    lines += [f"{number:>4} {name:<{width}}  {reason}" for number, name, reason in numbered]
    if found.last:
        lines.append(f"The last try did not succeed. {found.last}")
    return "\n".join(lines)


def _driver(seen: observation.Seen) -> str:
    installed = seen.record.installed
    if seen.record.change is not None:
        return "a change was begun, and has not ended"
    if installed is not None:
        return f"{installed.version}, by us from {installed.source}, since {seen.record.since}"
    return "one that others installed" if seen.loaded else "none"


def _module(seen: observation.Seen, name: str) -> tuple[str, str, str, str]:
    module, file = seen.loaded.get(name), seen.files.get(name)
    if module is None:
        return (name, "not loaded", "", file.path if file else "none")
    parameters = " ".join(f"{key}={value}" for key, value in module.parameters.items())
    return (name, module.version or module.build or "loaded", parameters, file.path if file else "none")


def _device(found: pci.Function) -> tuple[str, str, str, str, str]:
    entry = found.entry
    mode = "missing" if entry is None or entry.mode is None else f"{entry.mode:04o}"
    vfs = "virtual" if found.virtual else f"{found.vfs} of {found.total_vfs}"
    return (found.address, found.kind.name, entry.name if entry else "none", mode if entry else "", vfs)
