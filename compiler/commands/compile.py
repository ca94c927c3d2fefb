"""`kae compile`: compile policies/ and inventory/ into output/, or with --check compare output/ with the documents.

The cache answers the whole call where nothing changed; `compile_anew`, which imports all that compiles, does the rest.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compiler import cli, diagnostic_formats, diagnostics, wording
from compiler.checks.output import foreign as foreign_checks
from compiler.cli import findings
from compiler.output import foreign, scan
from compiler.packing import Packed
from compiler.project import compile_call

if TYPE_CHECKING:
    from compiler.views import object_changes

STATES = {
    "old": "output is not what the documents compile to",
    "incomplete": "a compile was interrupted and left output incomplete",
    "conflict": "a merge left files of the output in conflict",
    "line-ends": "the output has the line ends of Windows, as git writes with core.autocrlf",
    "edited": "output was edited by hand",
    "foreign": "output holds files that are not the compiler's",
    "removed": "output exists, but the cluster is no longer declared",
}
"""The states of a cluster's output in a check, for people; `fine` needs no words."""


class Done(NamedTuple):
    """The result for output/: states of clusters, findings on others' files in them and beside them, and changes."""

    rows: list[tuple[str, str]]
    foreign: diagnostics.Findings
    diffs: Sequence[Packed[str]] = ()
    changes: Sequence["object_changes.Said"] = ()
    strangers: diagnostics.Findings = ()


def run(arguments: argparse.Namespace) -> int:
    leaves_findings = arguments.findings_file is not None
    if leaves_findings and arguments.cluster:
        cli.parser().error("--findings is of a shard, or of all clusters.", "Leave --cluster out.")
    call = compile_call.Call(arguments)
    if leaves_findings:
        from compiler.project.by_cluster import shard_files  # noqa: PLC0415 - only a shard writes it

        shard_files.require_place(arguments.findings_file, call.settings, call.output)
        shard_files.forget(Path(arguments.findings_file))
    code = None if leaves_findings else _unchanged(call)  # The cache keeps the findings of all clusters together.
    if code is not None:
        return code
    from compiler.commands import compile_anew  # noqa: PLC0415 - only here is there something to compile

    return compile_anew.run(call)


def _unchanged(call: compile_call.Call) -> int | None:
    """Return the exit code of an earlier call if neither documents nor output have changed since."""
    overall = call.cache.overall
    wanted = sorted(call.arguments.cluster or call.shard.of(call.cache.clusters))
    if overall is None or overall.key != call.overall or not all(map(call.is_current, wanted)):
        return None
    if not call.arguments.cluster and (
        call.shard.of(scan.stale_clusters(call.output, wanted))
        or (foreign.entries(call.output, wanted, call.settings.extra) and call.unmerged)
    ):
        return None
    if foreign.engine_files(call.output, call.cache.clusters, call.settings.extra, skipped=wanted):
        return None
    if call.cache.digests.changed:
        call.save(call.cache)
    rows = [(name, "fine" if call.arguments.check else "unchanged") for name in wanted]
    done = Done(rows, (), strangers=strangers(call, rows))
    return end(call, compile_call.recorded(overall), done)


def end(call: compile_call.Call, found: Iterable[diagnostics.Diagnostic], done: Done) -> int:
    extra = foreign.extra_folders(call.output, call.settings.extra)
    found = diagnostics.merged([*found, *done.strangers])
    code = findings.show(
        call.arguments,
        found,
        _text(call, done, extra),
        clusters=[{"name": name, "state": state} for name, state in done.rows],
        changes=diagnostic_formats.Items([change.data.value()] for change in done.changes if change.data),
        foreign=[finding.span.file for finding in (*done.foreign, *done.strangers)],
        extra=[{"folder": folder, "files": files} for folder, files in extra.items()],
    )
    differs = done.strangers or any(state != "fine" for _, state in done.rows)
    return code or (cli.DIFFERS if call.arguments.check and differs else cli.FINE)


def strangers(call: compile_call.Call, rows: Iterable[tuple[str, str]]) -> diagnostics.Findings:
    """Return the findings on what is in output/ beside the folders of clusters; each shard looks at its part."""
    if call.arguments.cluster:
        return ()
    entries = foreign.entries(call.output, [name for name, _ in rows], call.settings.extra)
    return tuple(
        foreign_checks.files(
            str(call.output), [name for name in entries if call.shard.takes(name.rstrip("/"))], beside=True
        )
    )


def _text(call: compile_call.Call, done: Done, extra: Mapping[str, int]) -> Iterator[str]:
    """Yield the answer for people; `patch` and `git apply` skip what stands before and after the diff."""
    check = call.arguments.check
    lines = [f"{name}: {STATES.get(state, state) if check else state}" for name, state in done.rows]
    if done.strangers and check:
        files = wording.listed((finding.span.file for finding in done.strangers), most=5)
        lines.append(f"{files}: not written by the compiler")
    own = ((folder, wording.counted(count, "file")) for folder, count in extra.items())
    lines += [f"{folder}: {files} of your own, not compiled" for folder, files in own]
    if done.changes:
        from compiler.views import object_changes  # noqa: PLC0415 - only where something changes

        yield from (f"{line}\n" for line in object_changes.lines(done.changes))
    yield from (diff.value() for diff in done.diffs)
    yield "".join(f"{line}\n" for line in lines)
