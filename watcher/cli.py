"""The command line: `python -m watcher` follows the nodes; with `--once` it lists them, commits and ends."""

import argparse
import contextlib
import logging
import threading
from pathlib import Path

from compiler import errors as compiler_errors
from compiler.kube import reader
from runtime import errors, logs, shapes, signals, termination
from watcher import config, loop, node_feed, watcher_state
from watcher.git import credentials, git, repository

LOG = logging.getLogger(__name__)

_AGENT = "kae-watcher"

_POLL_S = 0.1


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code.

    0 after a signal, or when the repository is up to date; 1 for a bad config; 2 for a wrong call; 3 for an I/O error;
    4 when the snapshot is held back.
    """
    options = _parser().parse_args(arguments)
    logs.start("watcher")
    stop = threading.Event()
    signals.set_on_signals(stop)
    try:
        settings = shapes.load(options.config, config.Config)
        return _once(options, settings, stop) if options.once else _serve(options, settings, stop)
    except (errors.Failure, compiler_errors.WorldError) as failure:
        LOG.critical("%s", failure)
        termination.report(str(failure))
        return 1 if isinstance(failure, errors.ConfigError) else 3


def _serve(options: argparse.Namespace, settings: config.Config, stop: threading.Event) -> int:
    from runtime import metrics, state  # noqa: PLC0415 - --once needs neither

    shown = watcher_state.State()
    store = _store(options, settings, stop)
    with contextlib.ExitStack() as stack:
        if settings.metrics is not None:
            from watcher import watcher_metrics  # noqa: PLC0415 - saves five megabytes in a watcher without metrics

            registry = watcher_metrics.registry_of(shown, settings.interval_seconds)
            stack.callback(metrics.serve(registry, settings.metrics.port).close)
        cluster = stack.enter_context(contextlib.closing(reader.Cluster(options.kubeconfig, agent=_AGENT)))
        running = loop.Loop(settings, store, shown)
        nodes = stack.enter_context(
            contextlib.closing(node_feed.NodeFeed(cluster, settings.ignore_labels, settings.interval_seconds, running))
        )
        fallen = threading.Event()
        threading.Thread(target=_follow, args=(nodes, stop, fallen), name="feed", daemon=True).start()
        running.run(stop, state.ProgramDir(options.program_dir))
        if fallen.is_set():
            raise errors.Failure("The nodes are followed no more, by an error that the log names.")
    LOG.info("Ended as told.")
    return 0


def _follow(nodes: node_feed.NodeFeed, stop: threading.Event, fallen: threading.Event) -> None:
    """Follow the nodes; stop the watcher if that ends unexpectedly, because its nodes would become outdated."""
    try:
        nodes.run()
    finally:
        if not stop.is_set():
            fallen.set()
            stop.set()


def _once(options: argparse.Namespace, settings: config.Config, stop: threading.Event) -> int:
    shown = watcher_state.State()
    running = loop.Loop(settings, _store(options, settings, stop), shown)
    with contextlib.closing(reader.Cluster(options.kubeconfig, agent=_AGENT)) as cluster:
        _list(node_feed.NodeFeed(cluster, settings.ignore_labels, settings.interval_seconds, running), stop)
    pushed = running.publish(all_of_it=True)
    if shown.held:
        LOG.error("The snapshot is held back: %s", shown.held)
        return 4
    LOG.info("Committed." if pushed else "The repository is up to date.")
    return 0


def _list(nodes: node_feed.NodeFeed, stop: threading.Event) -> None:
    """List the nodes in a thread of its own, because a blocked read does not notice the stop event."""
    listed: list[str] = []
    failures: list[compiler_errors.WorldError] = []

    def work() -> None:
        try:
            listed.append(nodes.list())
        except compiler_errors.WorldError as failure:
            failures.append(failure)

    thread = threading.Thread(target=work, name="list", daemon=True)
    thread.start()
    while thread.is_alive() and not stop.is_set():
        thread.join(_POLL_S)
    if failures:
        raise failures[0]
    if not listed:
        raise errors.Failure("The nodes were not listed to their end, so nothing is committed.")


def _store(options: argparse.Namespace, settings: config.Config, stop: threading.Event) -> repository.Repository:
    place, author = settings.repository, settings.author
    target = repository.Target(
        url=place.url,
        branch=place.branch,
        path=f"{place.path.strip('/')}/{settings.cluster}.json".lstrip("/"),
        cluster=settings.cluster,
        author=git.Author(name=author.name, email=author.email),
    )
    secrets = credentials.Secrets(repository=options.secrets, signing=options.signing, format=settings.signing)
    return repository.Repository(target, options.scratch, secrets, stop, repository.Timing())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m watcher", description=__doc__, allow_abbrev=False)
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
