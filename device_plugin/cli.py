"""The command line: `python -m device_plugin` serves the kubelet, `python -m device_plugin list` shows the devices."""

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from device_plugin.host import paths
from runtime import device_plugin_config as config
from runtime import errors, program, shapes

if TYPE_CHECKING:
    from device_plugin import plugin
    from device_plugin.dra import claim_service

LOG = logging.getLogger(__name__)

_PROGRAM = "kae-device-plugin"

_MOUNTED_DEV = Path("/host/dev")
"""The path at which the DaemonSet mounts the host's /dev; a container has its own at /dev."""


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 after a signal or a list, 1 for a bad config or an I/O error, 2 for a wrong call."""
    options = _parser().parse_args(arguments)
    lists = options.command == "list"
    if not lists:
        program.begin("device-plugin", _PROGRAM)
    try:
        settings = shapes.load(options.config, config.Config)
        asyncio.run((_list if lists else _serve)(options, _paths(options, settings), settings))
    except errors.Failure as failure:
        if lists:
            print(f"device_plugin: {failure}", file=sys.stderr)
        else:
            program.fail(failure)
        return 1
    return 0


def _paths(options: argparse.Namespace, settings: config.Config) -> paths.Paths:
    return paths.Paths(
        sysfs=options.sysfs,
        dev=options.dev,
        run=options.run_dir or Path(settings.home.run),
        kubelet=options.kubelet_dir,
        recipe=settings.recipe,
        cdi=options.cdi_dir,
    )


async def _serve(options: argparse.Namespace, where: paths.Paths, settings: config.Config) -> None:
    # gRPC writes its remarks on connections as plain text, not JSON; the plugin logs what matters of them.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # `list` needs no gRPC.
    from device_plugin import loop, plugin, plugin_metrics  # noqa: PLC0415 - see above
    from runtime import metrics, signals, state  # noqa: PLC0415 - see above

    stop = signals.stop_on_signals(asyncio.get_running_loop())
    node = plugin.Plugin(where, settings)
    directory = state.ProgramDir(options.program_dir)
    running = loop.Loop(node, directory, options.rescan_seconds, lambda: _claiming(node))
    with metrics.served(settings.metrics, lambda: plugin_metrics.families(node, running.registrations)):
        await loop.first_of(running.run(), stop.wait())
    LOG.info("Ended as told.")


def _claiming(node: "plugin.Plugin") -> "claim_service.Claiming | None":
    """Return the driver of the interface DRA; None where the node neither has it nor had it before."""
    if node.settings.interface == "DevicePlugin" and not node.where.claims.exists():
        return None
    # Most nodes save these imports.
    from device_plugin.dra import api_server, claim_service, driver  # noqa: PLC0415 - see above

    if node.settings.interface == "DevicePlugin":
        return claim_service.Claiming(node)
    name = os.environ.get("NODE_NAME")
    if not name:
        raise errors.Failure("NODE_NAME is not set: the interface DRA needs the name of the node.")
    return driver.Driver(node, name, api_server.ApiServer.of_pod())


async def _list(options: argparse.Namespace, where: paths.Paths, settings: config.Config) -> None:
    from device_plugin import report  # noqa: PLC0415 - a serving plugin needs none of it

    made = await report.current(where, settings)
    print(report.as_json(made) if options.output == "json" else report.as_table(made))


def _parser() -> argparse.ArgumentParser:
    parser = program.parser("device_plugin", _PROGRAM, __doc__)
    _add_places(parser, defaults=True)
    parser.set_defaults(command="serve")
    commands = parser.add_subparsers(metavar="")
    lister = commands.add_parser("list", help="show the devices that would be advertised, and why", allow_abbrev=False)
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
    paths = (
        ("--config", Path("/etc/kae/config.json"), "FILE", "the config that the compiler rendered"),
        ("--sysfs", Path("/sys"), "DIR", "the host's sysfs"),
        ("--dev", _MOUNTED_DEV if _MOUNTED_DEV.is_dir() else Path("/dev"), "DIR", "the host's device nodes"),
        ("--kubelet-dir", Path("/var/lib/kubelet"), "DIR", "the kubelet's root folder"),
        ("--cdi-dir", Path("/var/run/cdi"), "DIR", "the files of the Container Device Interface"),
        ("--program-dir", Path("/run/program"), "DIR", "the files of the probes"),
        (
            "--run-dir",
            None,
            "DIR",
            "files kept on the host until it boots; those of a recipe below it (default: /run/kae)",
        ),
    )
    program.add_paths(parser, paths, defaults=defaults)
    parser.add_argument(
        "--rescan-seconds",
        type=_seconds,
        metavar="N",
        default=30.0 if defaults else argparse.SUPPRESS,
        help="how often to scan without any event (default: 30)",
    )
