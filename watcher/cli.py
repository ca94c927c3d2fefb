"""The command line: `python -m watcher` follows the nodes; with `--once` it lists them, commits and ends."""

import argparse
import contextlib
import logging
import posixpath
import threading
from pathlib import Path

from compiler import errors as compiler_errors
from compiler.inventory import reduction
from compiler.kube import reader
from runtime import errors, logs, metrics, shapes, signals, state, termination, version
from runtime import watcher_config as config
from watcher import loop, nodes, watcher_state
from watcher.git import credentials, repository

LOG = logging.getLogger(__name__)

_PROGRAM = "kae-watcher"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code.

    0 after a signal, or when the repository is up to date; 1 for a bad config; 2 for a wrong call; 3 for an I/O error;
    4 when a loss is refused, and all else is committed.
    """
    options = _parser().parse_args(arguments)
    logs.start("watcher")
    version.log(_PROGRAM)
    stop = threading.Event()
    signals.set_on_signals(stop)
    try:
        settings = shapes.load(options.config, config.Config)
        store = _store(options, settings, stop)
        with contextlib.closing(reader.Cluster(options.kubeconfig, agent=_PROGRAM)) as cluster:
            source = nodes.Nodes(cluster, reduction.Reducer(settings.ignore_labels, settings.labels))
            running = loop.Loop(settings, source, store, stop)
            return _once(running) if options.once else _serve(options, settings, running)
    except (errors.Failure, compiler_errors.WorldError) as failure:
        LOG.critical("%s", failure)
        termination.report(str(failure))
        return 1 if isinstance(failure, errors.ConfigError) else 3


def _serve(options: argparse.Namespace, settings: config.Config, running: loop.Loop) -> int:
    with contextlib.ExitStack() as stack:
        if settings.metrics is not None:
            stack.callback(metrics.serve(watcher_state.registry_of(running.state), settings.metrics.port).close)
        running.run(state.ProgramDir(options.program_dir))
    LOG.info("Ended as told.")
    return 0


def _once(running: loop.Loop) -> int:
    running.list()
    pushed = running.publish(all_of_it=True)
    LOG.info("Committed." if pushed else "Nothing was committed.")
    if running.state.refused:
        termination.report(running.state.reason)
    return 4 if running.state.refused else 0


def _store(options: argparse.Namespace, settings: config.Config, stop: threading.Event) -> repository.Repository:
    place, author = settings.repository, settings.author
    target = repository.Target(
        url=place.url,
        branch=place.branch,
        path=posixpath.normpath(f"{place.path}/{settings.cluster}.json"),
        author=f"{author.name} <{author.email}>",
        push_options=settings.push_options,
    )
    secrets = credentials.Secrets(repository=options.secrets, signing=options.signing if settings.signing else None)
    return repository.Repository(target, options.scratch, secrets, stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m watcher", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=version.words(_PROGRAM))
    for name, default, metavar, meaning in (
        ("--config", Path("/etc/kae/config.json"), "FILE", "the config that the compiler rendered"),
        ("--secrets", Path("/run/secrets/git"), "DIR", "the repository's credentials"),
        ("--signing", Path("/run/secrets/signing"), "DIR", "the key that commits are signed with"),
        ("--scratch", Path("/tmp/kae-watcher"), "DIR", "the folder of the clone; it is created, and may be lost"),  # noqa: S108
        ("--program-dir", Path("/run/program"), "DIR", "the files of the probes"),
    ):
        parser.add_argument(name, type=Path, metavar=metavar, default=default, help=f"{meaning} (default: {default})")
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="how to reach the API server (default: as a pod does)"
    )
    parser.add_argument("--once", action="store_true", help="list, commit at once, and end")
    return parser
