"""The answers of `status` and `plan`, as text and as JSON, and what they tell people to expect and to do."""

import argparse
import json
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from tabulate import tabulate

from installer import change_steps
from installer.decide import decision, driver_class
from installer.host import host_state, kmod, pci
from runtime import driver_config, program

PROGRAM = "kae-driver-installer"

_WIDTH = 110
"""The width of texts; tables are as wide as their content."""

_MARGIN = 10
"""The width of the facts' names."""

_NOTHING = "-"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a host, and what the installer would do."""

    settings: driver_config.Config
    current: host_state.HostState
    decided: decision.Decision
    steps: tuple[change_steps.Step, ...]
    holders: tuple[str, ...]
    """The device holders, each in words."""
    unserved: tuple[str, ...] = ()
    """Sentences about installed kernels without a driver."""
    others: tuple[str, ...] = ()
    """Sentences about what others have on this host: the drivers of other recipes, and lines for modprobe."""

    @property
    def pause_s(self) -> float:
        """The seconds until the next try, infinite if only people end the pause; another config is tried at once."""
        last = self.current.record.attempt
        return last.left_s(self.decided.asked, self.current.boot) if last is not None else 0


def as_json(made: Report) -> str:
    """Return the report for programs."""
    settings, current, known = made.settings, made.current, made.current.record
    driver, last = known.installed, known.attempt
    data = {
        "version": 1,
        "recipe": settings.recipe,
        "policy": settings.policy,
        "pool": settings.pool,
        "wanted": {
            "state": settings.state,
            "source": settings.source.name,
            "version": settings.driver_version,
            "installPolicy": settings.install_policy,
        },
        "program": program.version(),
        "system": current.system,
        "kernel": current.kernel,
        "secureBoot": current.secure_boot,
        "driverChanging": current.changing,
        "installed": driver
        and {"source": driver.source, "version": driver.version, "kernel": driver.kernel, "since": known.since},
        "changeBegun": known.change is not None,
        "lease": known.lease,
        "verdict": made.decided.outcome.value,
        "reasons": list(made.decided.reasons),
        "disturbs": made.decided.disturbs,
        "steps": [{"name": step.name, "reason": step.reason} for step in made.steps],
        "next": list(_coming(made)),
        "unservedKernels": list(made.unserved),
        "lastTry": last
        and {
            "state": last.state,
            "reason": last.reason,
            "failures": last.failures,
            "nextTrySeconds": None if math.isinf(made.pause_s) else round(made.pause_s),
        },
        "modules": [_json_module(name, current.loaded.get(name), current.files.get(name)) for name in _shown(made)],
        "nodes": [
            {"path": path, "there": path in current.nodes, "mode": _mode(current.nodes.get(path))}
            for path in settings.nodes
        ],
        "devices": [
            {
                "address": function.address,
                "kind": function.kind.name,
                "virtual": function.virtual,
                "driver": function.driver,
                "entry": function.entry and function.entry.name,
                "mode": _mode(function.entry),
                "virtualFunctions": function.vfs,
                "totalVirtualFunctions": function.total_vfs,
            }
            for function in current.functions
        ],
        "holders": list(made.holders),
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_status(made: Report) -> str:
    """Return the state of the host, for people."""
    facts = [(name, _wrapped(sentences, _WIDTH - _MARGIN)) for name, sentences in _facts(made)]
    parts = [_table(facts), _modules(made), *filter(None, [_devices(made), _nodes(made)])]
    if made.holders:
        parts.append("\n".join(["HELD BY", *made.holders]))
    return _joined(parts)


def as_plan(made: Report) -> str:
    """Return what the installer would do, for people."""
    last = (f"The last try: {said}",) if (said := _last_try(made.current)) else ()
    margin = max((len(step.name) for step in made.steps), default=0) + 6
    steps = (
        _filled(f"{number:>3} {step.name}".ljust(margin) + step.reason, _WIDTH, margin)
        for number, step in enumerate(made.steps, start=1)
    )
    parts = (
        _wrapped(made.decided.reasons),
        "\n".join(steps),
        _wrapped(last),
        _wrapped(_coming(made)),
        _wrapped(made.unserved),
    )
    return _joined(filter(None, parts))


def driver_on(settings: driver_config.Config, current: host_state.HostState) -> str:
    """Return the driver that the host has, and who installed it."""
    installed = current.record.installed
    recorded = "none installed by us"
    if installed is not None:
        kernel = "" if installed.kernel == current.kernel else f" for kernel {installed.kernel}"
        recorded = f"{installed.version} from {installed.source}{kernel}, installed by us at {current.record.since}"
    if current.record.change is not None:
        return f"a change was begun and did not end; before it: {recorded}"
    if installed is not None:
        return recorded
    if not current.loaded:
        return "none is loaded"
    versions = sorted({module.version for module in current.loaded.values() if module.version})
    which = ", ".join(versions) or "one without a version"
    found = f"{which}, installed by others" if versions or current.strangers else "the kernel's own"
    at_work = driver_class.of(settings).at_work(current)
    return f"{found}, at work" if at_work else f"{found}, loaded, but no device works with it"


def _last_try(current: host_state.HostState) -> str:
    """Return the last try that failed; empty if there was none."""
    last = current.record.attempt
    if last is None:
        return ""
    times = "once" if last.failures == 1 else f"{last.failures} times in a row"
    return f"{last.state}, {times}: {last.reason}"


def _coming(made: Report) -> Iterator[str]:
    """Yield sentences about the next steps of the installer and of people."""
    settings, decided, wait_s = made.settings, made.decided, made.pause_s
    if decided.outcome is decision.Outcome.FOREIGN:
        what = f"replaced by {settings.driver_version}" if settings.state == "Present" else "unloaded"
        yield (
            f"Nothing is done. To have it {what}, set the install policy of '{settings.policy}' to Always"
            " (driver.installPolicy; INSTALL_POLICY in driver.env of a KAEPolicy)."
        )
    elif decided.outcome is decision.Outcome.WAIT:
        yield (
            "The NFD worker of this node renews the labels, mostly within a minute. If it does not, look at that"
            " worker, and at the node's label feature.node.kubernetes.io/kernel-version.full."
        )
    elif decided.outcome is decision.Outcome.CHANGE:
        yield _disturbance(made)
        if math.isinf(wait_s):
            yield "Repair what the last try names, or change the policy; then call 'python -m installer retry'."
        elif wait_s:
            yield (
                f"Repair what the last try names. The next try is in {math.ceil(wait_s / 60)} min, or soon after"
                " 'python -m installer retry', a change of the policy, or a boot."
            )
        elif not decided.impossible:
            yield "A running installer begins within 60 s."


def _disturbance(made: Report) -> str:
    decided, drain, held = made.decided, made.settings.drain, len(made.holders)
    if decided.impossible:
        return "No change begins before that is fixed, and no pod is evicted."
    if not decided.disturbs:
        return "The change does not disturb the users of devices."
    if not held:
        return "No device is held now, so no pod is evicted, and no Lease is needed."
    holders = "The device holder" if held == 1 else f"The {held} device holders"
    if any(step.name == "spare-users" for step in made.steps):
        return f"{holders} may stay. To have the driver repaired sooner, end them yourself."
    evicted = "pods are evicted, as their disruption budgets allow" if drain.enabled else "no pod is evicted"
    limit = f"waits for all of them, at most {drain.timeout_seconds} s"
    return f"{holders}: {evicted}; the installer {limit}. If one stays, the driver stays as it is."


def _facts(made: Report) -> Iterator[tuple[str, Sequence[str]]]:
    settings, current = made.settings, made.current
    secure = "on (modules need a signature that the kernel trusts)" if current.secure_boot else "off"
    yield "Host", (f"{current.system}, kernel {current.kernel}, secure boot {secure}",)
    driver = f"driver {settings.driver_version} from {settings.source.name}"
    wanted = driver if settings.state == "Present" else "no driver"
    yield "Recipe", (settings.recipe,)
    yield "Policy", (f"{settings.policy}, pool {settings.pool}: {wanted}, install policy {settings.install_policy}",)
    yield "Program", (program.words(PROGRAM),)
    yield "Driver", (driver_on(settings, current),)
    yield "Decision", (made.decided.outcome.value.upper(), *made.decided.reasons)
    if current.changing:
        yield "Devices", (f"'{current.own.changing}' exists: the device plugin allocates no device.",)
    nodes = settings.device_nodes
    if nodes and nodes.mode == "0666" and any(entry.unprotected for entry in current.devices.values()):
        yield (
            "Warning",
            (
                "The SMMU is off, and every process may open the device nodes: a device reads and writes any memory"
                " for whoever opens it. Switch the SMMU on, or set driver.deviceNodes.mode of the policy to 0660.",
            ),
        )
    if current.record.lease is not None:
        yield "Lease", (f"The host keeps {current.record.lease}: another host of the policy may have to wait.",)
    if last := _last_try(current):
        yield "Last try", (last,)
    if coming := tuple(_coming(made)):
        yield "Next", coming
    if made.unserved:
        yield "Kernels", made.unserved
    if made.others:
        yield "Others", made.others


def _shown(made: Report) -> tuple[str, ...]:
    """Return the modules to load, and what is loaded of the others."""
    loaded = made.current.loaded
    names = dict.fromkeys((*made.settings.all_modules, *loaded))
    return tuple(name for name in names if name in made.settings.names or name in loaded)


def _modules(made: Report) -> str:
    current, home = made.current, f"/lib/modules/{made.current.kernel}/"
    rows = []
    for name in _shown(made):
        module, file = current.loaded.get(name), current.files.get(name)
        values = module.parameters if module else {}
        asked = sorted(made.settings.parameters.get(name, {}))
        parameters = " ".join(f"{key}={values[key]}" for key in asked if key in values)
        rows.append(
            (name, _identity(module), parameters, _identity(file), file.path.removeprefix(home) if file else None)
        )
    return _table(rows, "MODULE", "LOADED", "PARAMETERS", "ON DISK", f"BELOW {home}")


def _identity(module: kmod.Module | kmod.File | None) -> str:
    """Return the version of a module, or its srcversion: neither the kernel's own nor KAE 2.0.2's have a version."""
    if module is None:
        return _NOTHING
    return module.version or (f"srcversion {module.build[:7]}" if module.build else "unknown")


def _devices(made: Report) -> str:
    """Return a table of the PCI functions; empty for a class that knows its devices by nodes."""
    if not isinstance(made.settings, driver_config.Uacce):
        return ""
    if not made.current.functions:
        who = f"No device of recipe {made.settings.recipe}"
        return f"{who} is on the PCI bus: is it licensed, enabled in the BIOS, or passed to this guest?"
    rows = [
        (
            function.address,
            function.kind.name,
            function.driver,
            function.entry.name if function.entry else None,
            _mode(function.entry) or ("no node" if function.entry else _NOTHING),
            "is one" if function.virtual else f"{function.vfs} of {function.total_vfs}",
        )
        for function in made.current.functions
    ]
    return _table(rows, "DEVICE", "KIND", "DRIVER", "ENTRY", "MODE", "VIRTUAL FUNCTIONS")


def _nodes(made: Report) -> str:
    """Return a table of the device nodes that the config names; empty where it names none."""
    rows = []
    for path in made.settings.nodes:
        node = made.current.nodes.get(path)
        rows.append((path, node.numbers if node else "no device node", _mode(node)))
    return _table(rows, "DEVICE NODE", "NUMBERS", "MODE") if rows else ""


def _mode(entry: pci.Entry | None) -> str | None:
    return f"{entry.mode:04o}" if entry is not None and entry.mode is not None else None


def _json_module(name: str, module: kmod.Module | None, file: kmod.File | None) -> dict[str, object]:
    loaded = module and {
        "version": module.version,
        "srcversion": module.build,
        "parameters": dict(module.parameters),
        "users": module.users,
    }
    on_disk = file and {"path": file.path, "version": file.version, "srcversion": file.build}
    return {"name": name, "loaded": loaded, "file": on_disk}


def _table(rows: Iterable[Iterable[str | None]], *headers: str) -> str:
    cells = [[cell or _NOTHING for cell in row] for row in rows]
    return tabulate(cells, headers=headers, tablefmt="plain", disable_numparse=True)


def _wrapped(sentences: Iterable[str], width: int = _WIDTH) -> str:
    return "\n".join(_filled(sentence, width) for sentence in sentences)


def _filled(text: str, width: int, margin: int = 0) -> str:
    """Wrap a text, but break no path and no release, so that people can copy them."""
    indent = " " * margin
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join("\n".join(line.rstrip() for line in part.splitlines()) for part in parts)


def as_answer(made: Report, command: str, output: str) -> str:
    """Return the answer to `plan` or `status` as text or JSON."""
    as_text = as_plan if command == "plan" else as_status
    return as_json(made) if output == "json" else as_text(made)


def add_commands(
    parser: argparse.ArgumentParser,
    meanings: Mapping[str, str],
    paths: Sequence[tuple[str, Path | None, str, str]],
    recipe: str,
) -> None:
    """Add the commands for people, which the installer and the reporter both have; `recipe` is the help of --recipe."""
    commands = parser.add_subparsers(metavar="")
    for name, meaning in meanings.items():
        command = commands.add_parser(name, help=meaning, allow_abbrev=False)
        program.add_paths(command, paths, defaults=False)
        command.add_argument("--recipe", metavar="NAME", help=recipe)
        command.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
        command.set_defaults(command=name)
