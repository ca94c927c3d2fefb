"""The reporter: says how a host is whose installer has ended, without any right on it.

It judges by `decision.decide` as the installer does, with the host as the installer left it and what everybody may read
of it now: modules and PCI functions in /sys. What it cannot see stays as it was left: files of the driver, options,
libraries and the modes of device nodes. Where the driver is no longer right, or a device is new, it asks: the container
`pause`, which begins after the installer has ended, reads `ASKED`, and ends so that the kubelet starts the pod over.
"""

import argparse
import contextlib
import logging
import os
import sys
import threading
from pathlib import Path

import msgspec
from msgspec import structs

from installer import paths
from installer.decide import decision, driver_class
from installer.host import chroot, host_state, kmod, pci
from installer.report import driver_state, left, report
from runtime import clocks, driver_config, errors, files, metrics, program, signals, state

LOG = logging.getLogger(__name__)

FOLDER = "KAE_REPORT_DIR"
"""The environment variable with the folder of the reporter's own files, which its container alone has."""

ASKED = "asked"
"""The name of the file for `pause`: a line with `left.ENDED` as it was at the look, and one with the reason."""

LOOK_S = 5.0
_AT_WORK_S = 1.0
"""The pause between two looks at what an installer that is at work has left."""

_TAKEN_S = 60.0
"""The time in which the kubelet starts a pod over."""

_RETRY = "retry"

_UNSEEN = (
    "The reporter has no rights: of the driver's files, options and libraries it tells what the installer left, and it"
    " sees no holders of devices."
)
_IGNORED = (
    "The kubelet does not start the pod over: it is down, or its feature gate RestartAllContainersOnContainerExits or"
    " the API server's is off. Then delete the pod, and correct spec.kubernetesVersion of the KAECluster."
)
_INSTALLER = "ask it: kubectl exec with '-c installer' before the name of the pod"


class Reporter:
    """The reporter of one installer; `installers` is the folder that this writes, `own` that of the reporter."""

    def __init__(self, host: chroot.Host, settings: driver_config.Config, installers: Path, own: Path) -> None:
        self._host = host
        # The kernel is that of the installer's look: another one takes a boot, which starts the pod anew.
        self._settings = structs.replace(settings, kernels=None)
        self._installers, self._own = installers, own
        self._directory = state.ProgramDir(own)
        self._wrong = True
        """True when the driver was wrong at the last look, and before the first one."""
        self._asked_s: float | None = None
        """When this has asked; the kubelet starts this over, too."""
        self._left: left.Left | None = None
        self.shown = driver_state.DriverState()

    def look(self) -> bool:
        """Look at the host once, and publish its state; return whether this has asked for the pod's start."""
        self._directory.beat()
        found = self._left = left.read(self._installers)
        self.shown = (found or left.Left()).shown
        starts = False
        if found is not None and found.shown.host is not None and not found.at_work:
            waited_s = 0.0 if self._asked_s is None else clocks.since_boot_s() - self._asked_s
            if self._is_asked(found) and waited_s < _TAKEN_S:
                # What was left is from before the installer that the kubelet is about to start, perhaps slowly.
                self.shown.update("", left.UNSEEN)
            else:
                starts = self._judge(found, found.shown.host)
        if self.shown.host is not None:
            self.shown.served = driver_class.of(self._settings).served(self.shown.host)
        ready = self.shown.ready and not starts
        (self._directory.set_ready if ready else self._directory.set_unready)(self.shown.reason)
        return starts

    def _judge(self, found: left.Left, before: host_state.HostState) -> bool:
        now = self.shown.host = seen(self._host, self._settings, before)
        decided = decision.decide(self._settings, now, found.digest)
        wrong, was_wrong = decided.outcome is decision.Outcome.CHANGE, self._wrong
        self._wrong = wrong
        if not wrong:
            self.shown.update(decided.settled, decided.reasons[0])
        # A module that somebody loads right now is no loss: what was right is wrong after two looks.
        reason = decided.reasons[0] if wrong and was_wrong else _new(now, before)
        if not reason and (self._own / _RETRY).exists():
            reason = "A person asks for a look."
        return bool(reason) and self._starts(found, reason, wrong=wrong and was_wrong)

    @property
    def pause_s(self) -> float:
        """The seconds until the next look."""
        is_at_rest = self._left is not None and not self._left.at_work and self.shown.state != ""
        return LOOK_S if is_at_rest else _AT_WORK_S

    def _is_asked(self, found: left.Left) -> bool:
        """Return whether the kubelet was asked to start the pod over since the installer left this."""
        return _text(self._own / ASKED).partition("\n")[0] == left.ended(found)

    def families(self) -> list[metrics.Family]:
        """Return the metrics, as the installer would serve them."""
        return list(self.shown.families(self._left.held_s() if self._left is not None else None))

    def _starts(self, found: left.Left, reason: str, *, wrong: bool) -> bool:
        """Ask for the pod's start unless it is too early, and return whether; publish why, if the driver is wrong."""
        now_s = clocks.since_boot_s()
        wait_s = 0 if (self._own / _RETRY).exists() else found.due_s() - now_s
        state, then = "Changing", "The installer starts over."
        if asked := self._is_asked(found):
            state, then = "Failed", _IGNORED
        elif wait_s > 0:
            state, then = "Failed", f"It was so before; the installer starts over in {wait_s:.0f} s."
        if wrong:
            self.shown.update(state, f"{reason} {then}")
        if asked or wait_s > 0:
            return False
        LOG.warning("%s %s", reason, then)
        self._asked_s = now_s
        # The kubelet ends this at once when it is asked, and takes the next reporter for ready by the file of this one.
        self._directory.set_unready(self.shown.reason)
        (self._own / _RETRY).unlink(missing_ok=True)
        with files.replaced(self._own / ASKED) as fresh:
            fresh.write_text(f"{left.ended(found)}\n{reason}\n", "utf-8")
        return True


def _new(now: host_state.HostState, before: host_state.HostState) -> str:
    """Return a sentence about a device that the installer has not seen, or not with this entry; else nothing."""
    known = {function.address for function in before.functions}
    entries = {(one.address, one.entry.name, one.entry.numbers) for one in before.functions if one.entry is not None}
    for one in now.functions:
        entry = one.entry
        if one.address not in known:
            return f"Device {one.address} is new."
        if entry is not None and (one.address, entry.name, entry.numbers) not in entries:
            return f"Device {one.address} has a new entry, {entry.name}."
    return ""


def seen(host: chroot.Host, settings: driver_config.Config, before: host_state.HostState) -> host_state.HostState:
    """Return the state of the host as it was, with what everybody may read of it now."""
    loaded = kmod.loaded(host, dict.fromkeys((*before.loaded, *before.files, *settings.all_modules)))
    functions = pci.functions(host, settings)
    return structs.replace(
        before,
        loaded={name: _whole(module, before) for name, module in loaded.items()},
        above=kmod.loaded(host, settings.above),
        functions=tuple(
            structs.replace(one, entry=_same(one, before) or _as_wanted(settings, one)) for one in functions
        ),
    )


def _whole(module: kmod.Module, before: host_state.HostState) -> kmod.Module:
    """Return a module with those of its parameters that root alone may read (module_param of linux/moduleparam.h)."""
    was = before.loaded.get(module.name)
    return module if was is None else structs.replace(module, parameters={**was.parameters, **module.parameters})


def _same(function: pci.Function, before: host_state.HostState) -> pci.Entry | None:
    """Return the entry as the installer saw it, with the mode of its device node; None for another one."""
    entry = function.entry
    was = next((one.entry for one in before.functions if one.address == function.address), None)
    same = entry is not None and was is not None and (entry.name, entry.numbers) == (was.name, was.numbers)
    return was if same else None


def _as_wanted(settings: driver_config.Config, function: pci.Function) -> pci.Entry | None:
    """Return a new entry as the udev rule makes its device node, of which the installer makes sure."""
    entry, nodes = function.entry, settings.device_nodes
    if entry is None or nodes is None:
        return entry
    return structs.replace(entry, mode=int(nodes.mode, 8), group=entry.group if nodes.group is None else nodes.group)


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal, or answer; return the exit code."""
    options = _parser().parse_args(arguments)
    serves = options.command == "serve"
    stop = threading.Event()
    signals.set_on_signals(stop)
    if serves:
        program.begin("reporter", report.PROGRAM)
    try:
        settings = driver_config.load(options.config)
        host = chroot.Host(options.host_root, paths.Own(settings.home), stop=stop)
        return _serve(options, host, settings) if serves else _answer(options, host, settings)
    except errors.Failure as failure:
        if serves:
            program.fail(failure)
        else:
            print(f"installer: {failure}", file=sys.stderr)
        return 1 if isinstance(failure, errors.ConfigError) else 3


def _serve(options: argparse.Namespace, host: chroot.Host, settings: driver_config.Config) -> int:
    reporter = Reporter(host, settings, options.program_dir, _own())
    with metrics.served(settings.metrics, reporter.families):
        while not host.stop.is_set():
            reporter.look()
            host.stop.wait(reporter.pause_s)
    return 0


def _answer(options: argparse.Namespace, host: chroot.Host, settings: driver_config.Config) -> int:
    found = left.read(options.program_dir) or left.Left()
    if options.command == "remove":
        raise errors.Failure(
            "The reporter has no rights: to remove the driver, set driver.state to Absent in its policy."
        )
    if options.command == "retry":
        if found.at_work:
            raise errors.Failure(f"The installer is at work; {_INSTALLER}, and the same command.")
        (_own() / _RETRY).write_text("", "utf-8")
        print("The installer starts over within seconds.")
        return 0
    if found.shown.host is None:
        raise errors.Failure(f"{found.shown.reason} While it works, {_INSTALLER}.")
    settings = structs.replace(settings, kernels=None)
    now = found.shown.host if found.at_work else seen(host, settings, found.shown.host)
    decided = decision.decide(settings, now, found.digest)
    if found.at_work or decided.outcome is decision.Outcome.CHANGE:
        reasons = [found.shown.reason] if found.at_work else list(decided.reasons)
        at_work = "at work" if found.at_work else "about to start over"
        if options.output == "json":
            print(msgspec.json.encode({"version": 1, "state": found.shown.state, "reasons": reasons}).decode())
        else:
            print(f"The installer is {at_work}: {' '.join(reasons)}\n")
            print(f"For the steps of a change and for the holders of devices {_INSTALLER}.")
        return 0
    others = (_UNSEEN,)
    made = report.Report(settings=settings, current=now, decided=decided, steps=(), holders=(), others=others)
    print(report.as_answer(made, options.command, options.output))
    return 0


def _own() -> Path:
    return Path(os.environ[FOLDER])


def _text(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8")
    return ""


_PATHS = (
    ("--config", Path("/etc/kae/config.json"), "FILE", "the config"),
    ("--host-root", Path("/host"), "DIR", "the folder with the host's /sys"),
    ("--program-dir", Path("/run/program"), "DIR", "the folder that the installer writes"),
)


def _parser() -> argparse.ArgumentParser:
    parser = program.parser("installer", report.PROGRAM, __doc__)
    program.add_paths(parser, _PATHS)
    parser.set_defaults(command="serve")
    meanings = {
        "plan": "show whether the driver is right, and why",
        "status": "show what is on the host",
        "retry": "have the installer start over at once",
        "remove": "not possible without rights",
    }
    report.add_commands(parser, meanings, _PATHS, "as of the installer; the pod has one recipe")
    return parser
