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
from runtime import errors, metrics, program, shapes, signals, state
from runtime import watcher_config as config
from watcher import loop, nodes
from watcher.git import credentials, repository

LOG = logging.getLogger(__name__)

_PROGRAM = "kae-watcher"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    # 0 after a signal, or when the repository is up to date; 1 for a bad config; 2 for a wrong call; 3 for an I/O
    # error; 4 when a loss is refused, and all else is committed.
    options = _parser().parse_args(arguments)
    program.begin("watcher", _PROGRAM)
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
        program.fail(failure)
        return 1 if isinstance(failure, errors.ConfigError) else 3


def _serve(options: argparse.Namespace, settings: config.Config, running: loop.Loop) -> int:
    with metrics.served(settings.metrics, running.state.families):
        running.run(state.ProgramDir(options.program_dir))
    LOG.info("Ended as told.")
    return 0


def _once(running: loop.Loop) -> int:
    running.list()
    pushed = running.publish(all_of_it=True)
    LOG.info("Committed." if pushed else "Nothing was committed.")
    if running.state.refused:
        program.terminate(running.state.reason)
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
    parser = program.parser("watcher", _PROGRAM, __doc__)
    paths = (
        ("--config", Path("/etc/kae/config.json"), "FILE", "the config that the compiler rendered"),
        ("--secrets", Path("/run/secrets/git"), "DIR", "the repository's credentials"),
        ("--signing", Path("/run/secrets/signing"), "DIR", "the key that commits are signed with"),
        ("--scratch", Path("/tmp/kae-watcher"), "DIR", "the folder of the clone; it is created, and may be lost"),  # noqa: S108
        ("--program-dir", Path("/run/program"), "DIR", "the files of the probes"),
        ("--kubeconfig", None, "FILE", "how to reach the API server (default: as a pod does)"),
    )
    program.add_paths(parser, paths)
    parser.add_argument("--once", action="store_true", help="list, commit at once, and end")
    return parser
