"""The command line: `python -m device_plugin` works, `python -m device_plugin list` looks."""

import argparse
import asyncio
import contextlib
import logging
import os
import sys
from pathlib import Path

from device_plugin import config, paths
from runtime import configfile, errors, logs, termination

LOG = logging.getLogger(__name__)

_MOUNTED_DEV = Path("/host/dev")
"""Where the DaemonSet mounts the host's /dev; a container has its own at /dev."""


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 after a signal or a list, 1 where config or world do not allow more, 2 for a wrong call."""
    options = _parser().parse_args(arguments)
    where = paths.Places(sysfs=options.sysfs, dev=options.dev, run=options.run_dir, kubelet=options.kubelet_dir)
    if options.command == "list":
        return _list(options, where)
    logs.start("device-plugin")
    try:
        settings = configfile.load(options.config, config.Config)
        asyncio.run(_serve(options, where, settings))
    except errors.Failure as failure:
        LOG.critical("%s", failure)
        termination.report(str(failure))
        return 1
    LOG.info("Ended as told.")
    return 0


async def _serve(options: argparse.Namespace, where: paths.Places, settings: config.Config) -> None:
    # gRPC's own remarks on connections are no lines of JSON, and what matters of them is logged here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # `list` needs neither gRPC nor asyncio's machinery.
    from device_plugin import loop, plugin  # noqa: PLC0415 - see above
    from runtime import metrics, signals, state  # noqa: PLC0415 - see above

    stop = signals.stop_on_signals(asyncio.get_running_loop())
    node = plugin.Plugin(where, settings)
    running = loop.Program(node, state.ProgramDir(options.program_dir), options.rescan_seconds)
    with contextlib.ExitStack() as stack:
        if settings.metrics is not None:
            # Five megabytes that a plugin without metrics does without.
            from device_plugin import plugin_metrics  # noqa: PLC0415 - see above

            registry = plugin_metrics.registry_of(node, running.endpoints)
            stack.callback(metrics.serve(registry, settings.metrics.port).close)
        await loop.first_of(running.run(), stop.wait())


def _list(options: argparse.Namespace, where: paths.Places) -> int:
    from device_plugin import list_report  # noqa: PLC0415 - a plugin at work needs none of it

    try:
        settings = configfile.load(options.config, config.Config)
    except errors.Failure as failure:
        print(f"device_plugin: {failure}", file=sys.stderr)
        return 1
    made = list_report.report(where, settings)
    print(list_report.as_json(made) if options.output == "json" else list_report.as_table(made))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m device_plugin", description=__doc__, allow_abbrev=False)
    _add_places(parser, defaults=True)
    parser.set_defaults(command="serve")
    commands = parser.add_subparsers(metavar="")
    lister = commands.add_parser("list", help="show what would be reported, and why", allow_abbrev=False)
    _add_places(lister, defaults=False)
    lister.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    lister.set_defaults(command="list")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is not between 0.1 and 86400")
    return seconds


def _add_places(parser: argparse.ArgumentParser, *, defaults: bool) -> None:
    # The same options before and after `list`; those after it must not bring back the defaults.
    folders = (
        ("--config", Path("/etc/kae/config.json"), "FILE", "what the policy asks for"),
        ("--sysfs", Path("/sys"), "DIR", "the host's sysfs"),
        ("--dev", _MOUNTED_DEV if _MOUNTED_DEV.is_dir() else Path("/dev"), "DIR", "the host's device nodes"),
        ("--run-dir", Path("/run/kae"), "DIR", "what is kept on the host until it boots"),
        ("--kubelet-dir", Path("/var/lib/kubelet"), "DIR", "the kubelet's root folder"),
        ("--program-dir", Path("/run/program"), "DIR", "what the probes look at"),
    )
    for name, default, metavar, meaning in folders:
        parser.add_argument(
            name,
            type=Path,
            metavar=metavar,
            default=default if defaults else argparse.SUPPRESS,
            help=f"{meaning} (default: {default})",
        )
    parser.add_argument(
        "--rescan-seconds",
        type=_seconds,
        metavar="N",
        default=30.0 if defaults else argparse.SUPPRESS,
        help="how often to look without any event (default: 30)",
    )
