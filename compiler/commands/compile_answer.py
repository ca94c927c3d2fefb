"""The answer of `kae compile`: what changes by object, the difference of a check, the clusters, and what is others'."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from compiler import cli, diagnostic_formats, diagnostics, wording
from compiler.checks.output import foreign as foreign_checks
from compiler.cli import findings
from compiler.output import foreign
from compiler.packing import Packed
from compiler.project import compile_call

if TYPE_CHECKING:
    from compiler.views import object_changes

_STATES = {
    "old": "output is not what the documents compile to",
    "incomplete": "a compile was interrupted and left output incomplete",
    "conflict": "a merge left files of the output in conflict",
    "line-ends": "the output has the line ends of Windows, as git writes with core.autocrlf",
    "edited": "output was edited by hand",
    "foreign": "output holds files that the compiler did not write",
    "removed": "output exists, but the cluster is no longer declared",
}


class Done(NamedTuple):
    """The result for output/: states of clusters, findings on others' files in them and beside them, and changes."""

    rows: list[tuple[str, str]]
    foreign: diagnostics.Findings
    diffs: Sequence[Packed[str]] = ()
    changes: Sequence["object_changes.Said"] = ()
    strangers: diagnostics.Findings = ()


def end(call: compile_call.Call, found: Iterable[diagnostics.Diagnostic], done: Done) -> int:
    """Print the result and return the exit code."""
    extra = foreign.extra_folders(call.output, call.settings.extra)
    found = diagnostics.merged([*found, *done.strangers])
    findings.show(
        call.arguments,
        found,
        _text(call, done, extra),
        clusters=[{"name": name, "state": state} for name, state in done.rows],
        changes=_changes(done),
        foreign=[finding.span.file for finding in (*done.foreign, *done.strangers)],
        extra=[{"folder": item.folder, "files": item.files} for item in extra],
    )
    if findings.concluded(call.arguments, found):
        return cli.WRONG
    differs = done.strangers or any(state != "fine" for _, state in done.rows)
    return cli.DIFFERS if call.arguments.check and differs else cli.FINE


def strangers(call: compile_call.Call, rows: Iterable[tuple[str, str]]) -> diagnostics.Findings:
    """Return the findings on what is in output/ beside the folders of clusters; each shard looks at its part."""
    if call.arguments.cluster:
        return ()
    entries = foreign.entries(call.output, [name for name, _ in rows], call.settings.extra)
    return tuple(
        foreign_checks.files(str(call.output), [name for name in entries if call.shard.takes(name.rstrip("/"))])
    )


def _text(call: compile_call.Call, done: Done, extra: Iterable[foreign.Extra]) -> Iterator[str]:
    """Yield the answer for people; `patch` and `git apply` skip what stands before and after the diff."""
    check = call.arguments.check
    lines = [f"{name}: {text_of(state) if check else state}" for name, state in done.rows]
    if done.strangers and check:
        files = wording.listed((finding.span.file for finding in done.strangers), most=5)
        lines.append(f"{files}: not written by the compiler")
    lines += [f"{item.folder}: {wording.counted(item.files, 'file')} of your own, not compiled" for item in extra]
    yield _summary(done)
    yield from (diff.value() for diff in done.diffs)
    yield "".join(f"{line}\n" for line in lines)


def text_of(state: str) -> str:
    """Return what the state of a cluster's output in a check is, for people."""
    return _STATES.get(state, state)


def _summary(done: Done) -> str:
    if not done.changes:
        return ""
    from compiler.views import object_changes as view  # noqa: PLC0415 - only where something changes

    return "".join(f"{line}\n" for line in view.lines(done.changes))


def _changes(done: Done) -> diagnostic_formats.Items:
    return diagnostic_formats.Items([change.data.value()] for change in done.changes if change.data)
