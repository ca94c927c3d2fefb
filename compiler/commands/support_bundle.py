"""`kae support-bundle`: one archive with what a report of a fault needs, and no secret that its name or form tells."""

import argparse
import contextlib
import dataclasses
import functools
import gzip
import http
import io
import os
import platform
import re
import signal
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from compiler import __version__, cli, diagnostic_formats, diagnostics, errors, wording
from compiler.cli import findings, live, options, parsing
from compiler.commands import plan as plan_command
from compiler.commands import status
from compiler.fleet import definitions
from compiler.kube import client, reader
from compiler.planning import plan
from compiler.project import project_file
from compiler.project.by_cluster import planned
from compiler.status import cluster_status
from compiler.status import text as status_text
from compiler.support import collection, masking
from compiler.views import plan_data, plan_text

FOLDER = "kae-support-bundle"
"""The folder that holds everything, so that an archive is never unpacked over other files."""


_TIMEOUTS = client.Timeouts(connect_s=10, read_s=20, answer_s=60)
"""A cluster in trouble answers late or never, and the bundle is wanted now."""

_ADVICE = (
    "It names nodes, images and policies, and masks passwords, tokens and keys by their names and forms.\n"
    "Look through it before you send it."
)


def declare(command: parsing.Parser) -> None:
    """Declare the options of `kae support-bundle`."""
    command.examples(
        "kae support-bundle --cluster east -o ../east.tar.gz",
        "kae support-bundle --cluster east --node kp920-rack1-03 --kubeconfig ~/.kube/config -o ../east.tar.gz",
    )
    options.sources(command)
    live.options(command)
    command.add_argument(
        "-o",
        "--output-file",
        dest="target",
        required=True,
        metavar="FILE",
        help="the archive to make; it may not exist",
    )
    text = "the logs and answers of this node, instead of those of 20 nodes, those not ready first"
    options.repeatable(command, "--node", "NODE", text)


def run(arguments: argparse.Namespace) -> int:
    """Write the bundle; return 3 where the cluster does not tell its pods, though what else there is is in it.

    An interrupted collection writes what it has.
    """
    target = Path(arguments.target)
    if arguments.target == "-":
        cli.parser().error("a bundle is a file.", "Name it: -o ../bundle.tar.gz.")
    run, view = planned.of_one(project_file.of(arguments), arguments.cluster)
    made = collection.Bundle()
    with _ended_as_by_ctrl_c(), opened(target) as file:
        is_sound = _local(arguments, view, run.findings, made)
        try:
            code = _remote(arguments, run.fleet, view, made, is_sound=is_sound)
        except KeyboardInterrupt:
            # A cluster in trouble may keep one waiting for long, and what it said already is of use.
            made.lack("the rest: it was interrupted")
            code = cli.INTERRUPTED
        made.add("errors.txt", "".join(f"{line}\n" for line in made.missing) or "Nothing is missing.\n")
        write(file, made.texts, int(time.time()))
    for sentence in made.missing:
        sys.stderr.write(f"missing: {wording.escaped(sentence)}\n")
    sys.stdout.write(f"{wording.file_name(arguments.target)}: {wording.counted(len(made.texts), 'file')}\n{_ADVICE}\n")
    return code


@contextlib.contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt also where a session is lost (SIGHUP) or the process is told to end (SIGTERM)."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that only its owner may read; remove it where what follows fails.

    Raises WorldError where it exists or cannot be made: a bundle of an earlier look is never lost.
    """
    name = wording.file_name(str(path))
    try:
        # O_EXCL follows no link (open(2)).
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
    except FileExistsError as error:
        if path.is_dir():
            raise errors.WorldError(f"'{name}' is a folder.", hint="Name a file in it.") from error
        raise errors.WorldError(f"'{name}' exists already.", hint="Remove it, or name another file.") from error
    except OSError as error:
        raise errors.WorldError(f"'{name}' cannot be written: {error.strerror}.") from error
    try:
        with file:
            yield file
    except OSError as error:
        path.unlink(missing_ok=True)
        raise errors.WorldError(f"'{name}' cannot be written: {error.strerror}.") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write(target: BinaryIO, texts: Mapping[str, str], time_s: int) -> None:
    """Write texts by path as a .tar.gz, sorted by path, each masked once more; the same texts give the same bytes."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=time_s) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(texts):
            content = masking.text(texts[path]).encode("utf-8", "backslashreplace")
            entry = tarfile.TarInfo(f"{FOLDER}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), time_s, 0o600
            archive.addfile(entry, io.BytesIO(content))


def _local(
    arguments: argparse.Namespace, view: plan.Plan, every: diagnostics.Findings, made: collection.Bundle
) -> bool:
    """Add the findings, and the plan unless the documents are wrong; return whether they are not."""
    found = findings.with_severities(arguments, every)
    quoted = diagnostic_formats.text(map(_without_source, found), colour=False)
    made.add("findings.txt", quoted or "There are no findings.\n")
    if findings.concluded(arguments, found):
        made.lack("the plan, the status and the difference: the documents have errors, see findings.txt")
        return False
    made.add("plan.txt", "\n".join([*plan_text.summary(view), *plan_text.details(view)]) + "\n")
    made.add("plan.json", plan_data.data(view, plan_command.privileges(view)))
    return True


def _without_source(found: diagnostics.Diagnostic) -> diagnostics.Diagnostic:
    """Return a finding without the line of its document, and without the value that stands there.

    It may be that of a variable, whose name is on another line.
    """
    value = found.span.text.partition(":")[2].strip(" '\"*")[: wording.LONGEST]
    hidden = functools.partial(re.sub, rf"(?<!\w)\*?{re.escape(value)}(?!\w)", masking.MASK)
    is_value = value and found.span.text.lstrip(" -").startswith("value")
    return dataclasses.replace(
        found,
        span=dataclasses.replace(found.span, text=""),
        message=hidden(found.message) if is_value else found.message,
        notes=tuple(map(hidden, found.notes)) if is_value else found.notes,
        hint=hidden(found.hint) if is_value else found.hint,
    )


def _remote(
    arguments: argparse.Namespace,
    fleet: definitions.Fleet,
    view: plan.Plan,
    made: collection.Bundle,
    *,
    is_sound: bool,
) -> int:
    versions: dict[str, Any] = {"kae": __version__, "python": platform.python_version(), "server": None}
    made.add("versions.json", versions)
    try:
        asked = live.cluster(arguments, _TIMEOUTS)
        made.add("versions.json", {**versions, "server": asked.version(), "url": asked.host})
    except errors.WorldError as error:
        # Who may read nothing of the server may still read pods; a proxy or a page in its place knows nothing.
        if not isinstance(error, client.Refused) or error.status != http.HTTPStatus.FORBIDDEN:
            made.lack(f"everything of the cluster: {error}")
            return cli.WORLD
        made.lack(f"the server's version: {error}")
    with contextlib.closing(asked):
        if is_sound:
            made.attempt("status", lambda: _status(arguments, asked, fleet, view, made))
        nodes = [name.rpartition("/")[2] for name in arguments.node]
        known = [each.recipe for each in view.recipes]
        collection.Collection(asked, view.cluster.spec.namespace, made, known).collect(nodes)
    return cli.FINE if collection.PODS in made.texts else cli.WORLD


def _status(
    arguments: argparse.Namespace,
    asked: reader.Cluster,
    fleet: definitions.Fleet,
    view: plan.Plan,
    made: collection.Bundle,
) -> None:
    """Add the status, and the difference between the live objects and the output."""
    found, _ = status.of_cluster(asked, fleet, view, project_file.of(arguments))
    masked = dataclasses.replace(found, drifts=tuple(map(_masked, found.drifts)))
    data: Mapping[str, Any] = cluster_status.data(masked)
    made.add("status.txt", status_text.text(masked, status.age_s))
    made.add("status.json", {key: value for key, value in data.items() if key != "objects"})
    made.add("difference.json", data["objects"])


def _masked(deviation: cluster_status.Drift) -> cluster_status.Drift:
    changes = tuple(
        dataclasses.replace(
            change, wanted=masking.change(change.path, change.wanted), live=masking.change(change.path, change.live)
        )
        for change in deviation.changes
    )
    return dataclasses.replace(deviation, changes=changes)
