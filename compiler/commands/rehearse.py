"""`kae rehearse`: play a change on a real control plane, and compare the pods with what `kae diff` says of them."""

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from compiler import cli
from compiler.changes.difference import Difference
from compiler.cli import findings, live
from compiler.commands import diff
from compiler.kube import client, credentials
from compiler.project import comparison, package_data, project_file
from compiler.rehearsal import api, hollow, outcome, programs, stage
from compiler.rendering import templates
from compiler.views import rehearsal
from compiler.views.diff import data as diff_data

_Scene = tuple[str, stage.Side, stage.Side]
"""A cluster, as both sides of the change have it."""


def run(arguments: argparse.Namespace) -> int:
    """Print what happened, beside what was foretold; return DIFFERS where that is another thing.

    Return 1 where a revision does not compile, as nothing is known then.
    """
    is_own = arguments.kubeconfig is None and arguments.context is None
    paths = programs.found(arguments.programs) if is_own else {}
    settings = project_file.of(arguments)
    found, made = comparison.with_sides(arguments.revision, arguments.to, settings, arguments.cluster)
    if found.faults:
        return diff.refused(arguments, found)
    render = templates.renderer(package_data.templates(), package_data.code())
    foretold = {each.cluster: outcome.foretold(each.pods) for each in found.clusters}
    scenes = [(name, *stage.both(was, now, render)) for name, was, now in made]
    scenes = [scene for scene in scenes if scene[1] != scene[2] or foretold.get(scene[0])]
    outcomes: Sequence[outcome.Outcome] = ()
    if scenes:
        own = programs.running(paths) if is_own else contextlib.nullcontext()
        with _ending(), own as kubeconfig, _connected(arguments, kubeconfig) as connection:
            outcomes = _played(connection, scenes, found, is_own=is_own)
    body = "".join(f"{line}\n" for line in rehearsal.lines(outcomes))
    findings.show(arguments, (), body, **diff_data.revisions(found), **rehearsal.data(outcomes))
    return cli.FINE if all(one.is_equal for one in outcomes) else cli.DIFFERS


def _played(
    connection: client.Connection, scenes: Sequence[_Scene], found: Difference, *, is_own: bool
) -> Sequence[outcome.Outcome]:
    server = api.Api(connection)
    nodes = hollow.Nodes(server)
    theatre = stage.Stage(server, nodes)
    if not is_own:
        theatre.require_empty([side for _, *both in scenes for side in both])
    foretold = {each.cluster: outcome.foretold(each.pods) for each in found.clusters}
    outcomes = []
    with nodes.working(), contextlib.ExitStack() as last:
        if not is_own:
            last.callback(theatre.leave)
        for name, before, after in scenes:
            with contextlib.ExitStack() as behind:
                behind.callback(theatre.clear)
                outcomes.append(theatre.played(name, before, after, foretold.get(name, {})))
    return outcomes


@contextlib.contextmanager
def _connected(arguments: argparse.Namespace, kubeconfig: Path | None) -> Iterator[client.Connection]:
    """Yield a connection to the cluster of a kubeconfig, or to that of the command line."""
    files = live.files(arguments) if kubeconfig is None else [kubeconfig]
    load = credentials.of_files(files, arguments.context)
    with contextlib.closing(client.Connection(load, programs.AGENT)) as connection:
        yield connection


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Have a request to end (SIGTERM), and the end of the terminal (SIGHUP), end what was started, too."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    earlier = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
