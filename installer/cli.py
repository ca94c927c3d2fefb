"""The command line: `python -m installer` serves; `plan` and `status` only read, `remove` removes the driver."""

import argparse
import contextlib
import functools
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from installer import loop, paths, sources, store
from installer.change import prepare, transaction
from installer.decide import decision, desired
from installer.drain import cluster, device_holders, device_users, leases, programs
from installer.host import chroot, digests, host_state, record
from installer.report import driver_state, left, report
from installer.sources import build, packages, prebuilt
from runtime import driver_config, errors, metrics, process, program, pulse, signals, state

LOG = logging.getLogger(__name__)

NODE = "NODE_NAME"
"""The environment variable with the node's name, in which the host holds a Lease."""


class Folders(msgspec.Struct, frozen=True):
    """The folders that the options name."""

    image: Path
    payloads: Path = Path("/payload")
    kubelet: Path = device_holders.KUBELET
    """The kubelet's root folder on the host."""


class Wiring:
    """The parts that a change of this host needs."""

    def __init__(
        self, host: chroot.Host, settings: driver_config.Config, folders: Folders, kubeconfig: Path | None
    ) -> None:
        """Create the parts for a host; raise `Failure` if the folder is none, or the image cannot be read."""
        kernel = host_state.kernel(host)
        self.host, self.settings = host, settings
        self._context = sources.Context(
            host=host, image=folders.image, settings=settings, kernel=kernel, payloads=folders.payloads
        )
        source = _source(self._context)
        drivers = store.Store(self._context, source)
        self._api = cluster.Cluster(kubeconfig)
        node = os.environ.get(NODE, "")
        self.claim = leases.Claim(self._api, settings.leases, node)
        after = programs.Programs(host, settings, self._api, node)
        self._devices = device_users.DeviceUsers(host, settings, self._api, folders.kubelet, after)
        preparation = prepare.Preparation(host, settings, drivers, self._devices, self.claim)
        self.changer = transaction.Changer(host, settings, drivers, preparation)
        brought = [source.fingerprint()]
        for part, tops in self._context.brought.items():
            brought += [f"{part} {digests.of_folder(top)}".strip() for top in tops]
        self.digest = desired.digest(settings, kernel, " ".join(brought))
        self.published = driver_state.DriverState()
        self.loop = loop.Loop(host, settings, self.changer, self.digest, self.published)

    def leave_to_reporter(self, keeper: left.Keeper) -> None:
        """Have the loop end once the host is settled, and go on where the last installer of this pod ended."""
        keeper.attach(self.digest, lambda: self.claim.held_s)
        shown, published = keeper.before.shown, self.published
        published.steps, published.failures, published.changes = shown.steps, shown.failures, shown.changes
        self.loop.mended_s = keeper.before.mended_s
        self.loop.keeper = keeper

    def resume(self) -> None:
        """Continue to hold the Lease that a previous installer took, if there is one."""
        known = record.read(self.host)
        if known.lease is not None:
            self.claim.resume(known.lease, known.acquired)

    def report(self) -> report.Report:
        """Return the state of the host, and the steps of a change."""
        current = host_state.read(self.host, self.settings)
        decided = decision.decide(self.settings, current, self.digest)
        try:
            held = self._devices.present(current)
            changes = decided.outcome is decision.Outcome.CHANGE
            steps = self.changer.plan(current, decided) if changes else ()
        except errors.Failure as failure:
            # The rest of the report is still worth showing.
            held, steps = (), ()
            reasons = (*decided.reasons, f"The device holders are unknown: {failure}")
            decided = structs.replace(decided, reasons=reasons)
        return report.Report(
            settings=self.settings,
            current=current,
            decided=decided,
            steps=steps,
            holders=held,
            unserved=tuple(_unserved(self._context)),
            others=(
                *(
                    f"{recipe}: {driver.version} from {driver.source}."
                    if driver
                    else f"{recipe}: its record is damaged."
                    for recipe, driver in record.every(self.host).items()
                    if recipe != self.settings.recipe
                ),
                *(f"{rule.path} says of {rule.module}: {rule.words}." for rule in current.rules_elsewhere),
            ),
        )

    def is_going(self) -> bool:
        """Return whether the installer's own DaemonSet is known to be deleted; False without an answer."""
        own = self.settings.daemon_set
        return self._api.daemon_set_is_going(own.namespace, own.name) is True

    def close(self) -> None:
        """End the renewal of the Lease, and the connections."""
        self.claim.close()
        self._api.close()


def _unserved(context: sources.Context) -> Iterator[str]:
    """Return sentences about the installed kernels for which this pool may have no driver once the node boots them."""
    settings = context.settings
    for folder in sorted(context.host.resolved("/lib/modules").glob("*/kernel")):
        kernel = folder.parent.name
        ours = settings.state == "Present" and decision.other_pool(settings, kernel) is None
        if not ours or kernel == context.kernel:
            continue
        if lacking := _source(structs.replace(context, kernel=kernel)).lacks():
            yield f"Kernel {kernel} is installed, too, and {lacking}: see to it before the node boots it."


def _source(context: sources.Context) -> sources.Source:
    stated = context.settings.source
    if stated.build is not None:
        return build.Build(context, stated.build)
    if stated.packages is not None:
        return packages.Packages(context, stated.packages)
    return prebuilt.Prebuilt(context) if stated.prebuilt is not None else prebuilt.InTree(context)


_PATHS = (
    ("--config", Path("/etc/kae/config.json"), "FILE", "the config"),
    ("--host-root", Path("/host"), "DIR", "the host's root"),
    ("--image-root", Path("/"), "DIR", "the root of the image that contains the driver"),
    ("--payload-dir", Path("/payload"), "DIR", "the folder with the files of the recipe's payloads"),
    ("--program-dir", Path("/run/program"), "DIR", "the folder of the probes"),
    ("--kubelet-dir", device_holders.KUBELET, "DIR", "the kubelet's root folder on the host"),
    ("--kubeconfig", None, "FILE", "access to the API server (default: KUBECONFIG, else the pod's service account)"),
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return 0 after a signal or an answer, 1 for a bad config, 2 for a usage error, 3 for a failure."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    signals.set_on_signals(stop)
    serves = options.command == "serve"
    if serves:
        program.begin("installer", report.PROGRAM)
    try:
        # The container before this one may have left its readiness. A config that is none is told of first.
        try:
            settings = driver_config.load(options.config)
        except errors.ConfigError:
            if serves:
                with contextlib.suppress(errors.Failure):
                    state.ProgramDir(options.program_dir)
            raise
        directory = state.ProgramDir(options.program_dir) if serves else None
        host = chroot.Host(options.host_root, paths.Own(settings.home), stop=stop)
        if options.recipe not in (None, settings.recipe):
            present = ", ".join(record.every(host)) or "none"
            raise errors.Failure(
                f"The config is that of recipe {settings.recipe}, not of {options.recipe}: call the installer in a pod"
                f" of {options.recipe}-driver. Drivers on this host: {present}."
            )
        if directory is None:
            return _answer(options, host, settings)
        with pulse.watched(stop, functools.partial(_hangs, directory)):
            return _serve(options, host, settings, directory)
    except errors.Failure as failure:
        if serves:
            program.fail(failure)
        else:
            print(f"installer: {failure}", file=sys.stderr)
        return 1 if isinstance(failure, errors.ConfigError) else 3


def _hangs(directory: state.ProgramDir, sentence: str) -> None:
    with contextlib.suppress(errors.Failure):
        directory.set_unready(sentence)
    program.fail(errors.Failure(f"{sentence} The installer ends; the next one goes on."))
    os._exit(3)  # Nothing ends a thread that waits in the kernel.


def _serve(
    options: argparse.Namespace, host: chroot.Host, settings: driver_config.Config, directory: state.ProgramDir
) -> int:
    # gRPC's own log lines are no JSON, and the installer logs what matters of them.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    _check_name()
    keeper = left.Keeper(options.program_dir) if options.until_right else None
    parts = _connect(options, host, settings)
    # Of an installer that ends, the reporter serves the metrics.
    endpoint = settings.metrics if keeper is None else None
    with (
        contextlib.closing(parts),
        metrics.served(endpoint, lambda: parts.published.families(parts.claim.held_s)),
    ):
        parts.loop.turn_s = options.turn_seconds
        if keeper is not None:
            parts.leave_to_reporter(keeper)
        parts.resume()
        parts.loop.run(directory)
        if settings.enabled_cleanup and parts.is_going():
            parts.close()  # The connection below takes over the Lease.
            _clean_up(options, host, settings)
        if not parts.published.ready:
            program.terminate(parts.published.reason)
    if host.stop.is_set():
        LOG.info("The installer ends, as a signal asked.")
    # An init container that ends with 0 is one that is done.
    return 3 if keeper is not None and host.stop.is_set() else 0


def _clean_up(options: argparse.Namespace, host: chroot.Host, settings: driver_config.Config) -> None:
    LOG.info("The DaemonSet is deleted and enabledCleanup is set, so the driver is removed.")
    host.stop.clear()  # The next signal interrupts the removal; the one after that kills.
    with contextlib.suppress(process.Cancelled), _absent(options, host, settings) as parts:
        while not host.stop.is_set():
            pause_s = parts.loop.cycle()
            if parts.published.ready:
                return
            pulse.wait(host.stop, pause_s)


def _answer(options: argparse.Namespace, host: chroot.Host, settings: driver_config.Config) -> int:
    if options.command == "retry":
        host_state.kernel(host)  # It raises a failure for a folder that is no host.
        host.write(host.own.retry, "")
        print("The installer tries again within a minute.")
        return 0
    if options.command == "remove":
        return _remove(options, host, settings)
    with contextlib.closing(_connect(options, host, settings)) as parts:
        made = parts.report()
    print(report.as_answer(made, options.command, options.output))
    return 0


def _remove(options: argparse.Namespace, host: chroot.Host, settings: driver_config.Config) -> int:
    _check_name()
    with _absent(options, host, settings, wait=False) as parts:
        while parts.loop.cycle() == 0 and not host.stop.is_set():
            pass
        made, published = parts.report(), parts.published
    print(report.as_json(made) if options.output == "json" else f"{published.state}: {published.reason}")
    return 0 if published.ready else 3


@contextlib.contextmanager
def _absent(
    options: argparse.Namespace, host: chroot.Host, settings: driver_config.Config, *, wait: bool = True
) -> Iterator[Wiring]:
    """Return a context with the parts that remove the driver, under the lock of the host's only installer."""
    parts = _connect(options, host, msgspec.structs.replace(settings, state="Absent"))
    with contextlib.closing(parts), loop.lock(host, wait=wait):
        parts.resume()
        yield parts


def _connect(options: argparse.Namespace, host: chroot.Host, settings: driver_config.Config) -> Wiring:
    folders = Folders(options.image_root, options.payload_dir, options.kubelet_dir)
    return Wiring(host, settings, folders, options.kubeconfig)


def _check_name() -> None:
    if not os.environ.get(NODE):
        raise errors.Failure(f"The environment variable {NODE}, the node's name, is not set.")


def _parser() -> argparse.ArgumentParser:
    parser = program.parser("installer", report.PROGRAM, __doc__)
    program.add_paths(parser, _PATHS)
    # For tests with a fleet on one machine, where the default would be too slow.
    parser.add_argument("--turn-seconds", type=float, default=loop.TURN_S, help=argparse.SUPPRESS)
    parser.add_argument(
        "--until-right",
        action="store_true",
        help="end once the driver is right, or another's, and leave the host to the reporter in the program folder",
    )
    parser.set_defaults(command="serve", recipe=None)
    meanings = {
        "plan": "show the steps of a change and their reasons, without making it",
        "status": "show what is on the host",
        "retry": "after a repair: try again without waiting",
        "remove": "remove the driver that we installed, with the steps of driver.state Absent",
    }
    report.add_commands(parser, meanings, _PATHS, "fail unless the config is of this recipe")
    return parser
