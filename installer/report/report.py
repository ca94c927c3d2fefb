"""What `status` and `plan` say: what is there, is it right, what would happen, why, and what people can do."""

import json
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from installer import config, paths
from installer.decide import change_steps, decision
from installer.host import host_state, kmod, pci
from installer.report import advice
from installer.store import record

_WIDTH = 110
"""Of texts; tables are as wide as what they hold."""

_MARGIN = 10
"""Of the facts, for their names."""

_NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a host stands, and what would be done."""

    settings: config.Config
    current: host_state.HostState
    decided: decision.Decision
    steps: tuple[change_steps.Step, ...]
    holders: tuple[str, ...]
    """Who holds a device, each in words."""
    pause_s: float
    """Until the next try."""
    coming: tuple[str, ...]
    """What becomes of it, and what people can do, in sentences."""


def report(
    settings: config.Config,
    current: host_state.HostState,
    decided: decision.Decision,
    steps: Iterable[change_steps.Step],
    holders: Sequence[str],
) -> Report:
    """Everything about a host that people ask for."""
    outlined = tuple(steps)
    pause_s = advice.pause_s(decided, current, time.clock_gettime(time.CLOCK_BOOTTIME))
    return Report(
        settings=settings,
        current=current,
        decided=decided,
        steps=outlined,
        holders=tuple(holders),
        pause_s=pause_s,
        coming=tuple(advice.coming(settings, decided, outlined, len(holders), pause_s)),
    )


def as_json(found: Report) -> str:
    """The report for programs."""
    settings, current, known = found.settings, found.current, found.current.record
    wanted = {"state": settings.state, "source": settings.source.name, "version": settings.driver_version}
    data = {
        "version": 1,
        "policy": settings.policy,
        "pool": settings.pool,
        "wanted": {**wanted, "installPolicy": settings.install_policy},
        "system": current.system,
        "kernel": current.kernel,
        "secureBoot": current.secure_boot,
        "driverChanging": current.changing,
        "installed": _json_driver(known.installed, known.since),
        "changeBegun": known.change is not None,
        "lease": known.lease,
        "verdict": found.decided.kind.value,
        "reasons": list(found.decided.reasons),
        "disturbs": found.decided.disturbs,
        "steps": [{"name": step.name, "reason": step.reason} for step in found.steps],
        "next": list(found.coming),
        "lastTry": _json_try(found),
        "modules": [_json_module(current, name) for name in settings.modules],
        "devices": [_json_device(function) for function in current.functions],
        "holders": list(found.holders),
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_status(found: Report) -> str:
    """The host, for people."""
    facts = [(name, _wrapped(sentences, _WIDTH - _MARGIN)) for name, sentences in _facts(found)]
    parts = [tabulate(facts, tablefmt="plain", disable_numparse=True), _modules(found), _devices(found)]
    if found.holders:
        parts.append("\n".join(["HELD BY", *found.holders]))
    return _joined(parts)


def as_plan(found: Report) -> str:
    """What would be done, for people."""
    last = (f"The last try: {said}",) if (said := advice.last_try(found.current)) else ()
    margin = max((len(step.name) for step in found.steps), default=0) + 6
    steps = (
        _filled(f"{number:>3} {step.name}".ljust(margin) + step.reason, _WIDTH, margin)
        for number, step in enumerate(found.steps, start=1)
    )
    parts = (_wrapped(found.decided.reasons), "\n".join(steps), _wrapped(last), _wrapped(found.coming))
    return _joined(filter(None, parts))


def _facts(found: Report) -> Iterator[tuple[str, Sequence[str]]]:
    settings, current = found.settings, found.current
    secure = "on (modules need a signature that the kernel trusts)" if current.secure_boot else "off"
    yield "Host", (f"{current.system}, kernel {current.kernel}, secure boot {secure}",)
    yield "Policy", (f"{settings.policy}, pool {settings.pool}: {advice.wanted(settings)}",)
    yield "Driver", (advice.driver(current),)
    yield "Verdict", (found.decided.kind.value.upper(), *found.decided.reasons)
    if current.changing:
        yield "Devices", (f"'{paths.CHANGING}' is there: the device plugin gives nobody a device.",)
    if current.record.lease is not None:
        yield "Lease", (f"{current.record.lease} is kept: another host of the policy may have to wait for this one.",)
    if last := advice.last_try(current):
        yield "Last try", (last,)
    yield "Next", found.coming


def _modules(found: Report) -> str:
    current, settings = found.current, found.settings
    rows = [_module_row(current, name, settings.module_parameters.get(name, {})) for name in settings.modules]
    headers = ("MODULE", "LOADED", "PARAMETERS", "ON DISK", f"BELOW {_home(current)}")
    return tabulate(rows, headers=headers, tablefmt="plain", disable_numparse=True)


def _module_row(current: host_state.HostState, name: str, asked: Iterable[str]) -> tuple[str, ...]:
    module, file = current.loaded.get(name), current.files.get(name)
    in_force = dict(module.parameters) if module is not None else {}
    return (
        name,
        _identity(module),
        " ".join(f"{key}={in_force[key]}" for key in sorted(asked) if key in in_force) or _NOTHING,
        _identity(file),
        file.path.removeprefix(_home(current)) if file is not None else _NOTHING,
    )


def _home(current: host_state.HostState) -> str:
    return f"/lib/modules/{current.kernel}/"


def _identity(found: kmod.Module | kmod.File | None) -> str:
    """By which one module is told from another of its name; the kernel's own have no version."""
    if found is None:
        return _NOTHING
    return found.version or (f"srcversion {found.build[:7]}" if found.build else "unknown")


def _devices(found: Report) -> str:
    if not found.current.functions:
        return "No KAE device is on the PCI bus: is it licensed, enabled in the BIOS, or passed to this guest?"
    rows = [_device_row(function) for function in found.current.functions]
    headers = ("DEVICE", "KIND", "DRIVER", "ENTRY", "MODE", "VIRTUAL FUNCTIONS")
    return tabulate(rows, headers=headers, tablefmt="plain", disable_numparse=True)


def _device_row(function: pci.Function) -> tuple[str, ...]:
    entry = function.entry
    return (
        function.address,
        function.kind.name,
        function.driver or _NOTHING,
        entry.name if entry is not None else _NOTHING,
        _mode(entry) or ("no node" if entry is not None else _NOTHING),
        "is one" if function.virtual else f"{function.vfs} of {function.total_vfs}",
    )


def _mode(entry: pci.Entry | None) -> str | None:
    return f"{entry.mode:04o}" if entry is not None and entry.mode is not None else None


def _json_driver(driver: record.Driver | None, since: str) -> dict[str, object] | None:
    if driver is None:
        return None
    return {"source": driver.source, "version": driver.version, "kernel": driver.kernel, "since": since}


def _json_try(found: Report) -> dict[str, object] | None:
    last = found.current.record.attempt
    if last is None:
        return None
    said = {"state": last.state, "reason": last.reason, "failures": last.failures}
    return {**said, "nextTrySeconds": round(found.pause_s)}


def _json_module(current: host_state.HostState, name: str) -> dict[str, object]:
    module, file = current.loaded.get(name), current.files.get(name)
    loaded = module and {
        "version": module.version,
        "srcversion": module.build,
        "parameters": dict(module.parameters),
        "users": module.users,
    }
    on_disk = file and {"path": file.path, "version": file.version, "srcversion": file.build}
    return {"name": name, "loaded": loaded, "file": on_disk}


def _json_device(function: pci.Function) -> dict[str, object]:
    return {
        "address": function.address,
        "kind": function.kind.name,
        "virtual": function.virtual,
        "driver": function.driver,
        "entry": function.entry.name if function.entry is not None else None,
        "mode": _mode(function.entry),
        "virtualFunctions": function.vfs,
        "totalVirtualFunctions": function.total_vfs,
    }


def _wrapped(sentences: Iterable[str], width: int = _WIDTH) -> str:
    return "\n".join(_filled(sentence, width) for sentence in sentences)


def _filled(text: str, width: int, margin: int = 0) -> str:
    """In lines of so many characters; paths and releases stay in one piece, to be copied."""
    indent = " " * margin
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join("\n".join(line.rstrip() for line in part.splitlines()) for part in parts)
