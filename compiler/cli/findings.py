"""The end of a command: its findings in the requested format, and its exit code."""

import argparse
import itertools
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compiler import cli, diagnostic_formats, diagnostics, wording
from compiler.project import package_data, project_file

if TYPE_CHECKING:
    from compiler.changes.acceptance import Acceptable


def concluded(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> bool:
    """Return whether the findings end the command: errors, or with --strict any warning."""
    return any(_stops(arguments, item) for item in with_severities(arguments, found))


def require_fine(arguments: argparse.Namespace, found: diagnostics.Findings, **result: Any) -> None:
    """Print the findings that end the command, with its answer for programs. Raises WrongError for these."""
    if concluded(arguments, found):
        show(arguments, found, **result)
        raise cli.WrongError


def _stops(arguments: argparse.Namespace, finding: diagnostics.Diagnostic) -> bool:
    return finding.severity == "error" or (finding.severity == "warning" and arguments.strict)


def with_severities(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> diagnostics.Findings:
    """Return each finding once, sorted, with its severity in the project."""
    return project_file.of(arguments).with_severities(diagnostics.merged(found))


def without_warnings(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> diagnostics.Findings:
    """Return each finding once, sorted, with its severity in the project, but for warnings."""
    return tuple(item for item in with_severities(arguments, found) if item.severity != "warning")


def show(
    arguments: argparse.Namespace,
    found: diagnostics.Findings,
    body: str | Iterable[str] = "",
    notes: Sequence[diagnostic_formats.Note] = (),
    **result: Any,
) -> int:
    """Print the findings, and a command's answer: `body` for people, whole or in pieces, and `result` for programs.

    Return the exit code: WRONG where the findings end the command, otherwise FINE.
    In NDJSON the pieces of `body` are the lines of the answer, and the findings are lines too.
    Standard output holds one thing. An answer in JSON or YAML holds the findings too; findings in JSON or SARIF leave
    the answer for people to standard error. Only the formats of code hosts show `notes`.
    """
    form, shape, located = arguments.format, arguments.shape, project_file.in_repository
    every = project_file.of(arguments).with_severities(found) if found else ()
    if arguments.quiet:
        every = tuple(item for item in every if _stops(arguments, item))
        body = "" if shape == "text" else body
    pieces = [body] if isinstance(body, str) else body
    shown, ignored = diagnostics.split_ignored(every)
    if shape == "ndjson":
        sys.stdout.writelines(itertools.chain(pieces, diagnostic_formats.lines(shown)))
    elif shape in ("json", "yaml"):
        sys.stdout.writelines(diagnostic_formats.answer(shape, shown, ignored, **result))
    elif form == "github":
        said = diagnostic_formats.without_commands("".join(pieces))
        sys.stdout.write(diagnostic_formats.github(shown, located, ignored, notes) + said)
    elif form == "text":
        sys.stdout.writelines(pieces)
    else:
        if form == "sarif":
            examples = package_data.examples()
            sys.stdout.write(diagnostic_formats.sarif(shown, located, examples, ignored, notes))
        else:
            sys.stdout.writelines(diagnostic_formats.answer("json", shown, ignored))
        sys.stderr.writelines(pieces)
    sys.stdout.flush()
    if form == "text":
        report(arguments, every)
    return cli.WRONG if any(_stops(arguments, item) for item in every) else cli.FINE


def tell_unused(accepted: Iterable[str], codes: Collection[str], found: Sequence["Acceptable"]) -> None:
    """Say which accepted scopes, of those that a command judges, let nothing pass."""
    for scope in accepted:
        code = scope.partition(":")[0]
        if code in codes and not any(item.is_accepted([scope]) for item in found):
            why = "the change has no such risk" if code in diagnostics.RISKS else "nothing of this scope goes"
            sys.stderr.write(f"--accept {wording.escaped(scope)} lets nothing pass: {why}.\n")


def report(arguments: argparse.Namespace, found: diagnostics.Findings) -> None:
    """Print the findings for people, and their summary."""
    every = project_file.of(arguments).with_severities(found) if found else ()
    if arguments.quiet:
        every = tuple(item for item in every if _stops(arguments, item))
    shown, ignored = diagnostics.split_ignored(every)
    sys.stdout.flush()
    sys.stderr.write(diagnostic_formats.text(shown, colour=colour(sys.stderr, arguments.color)))
    sys.stderr.write(_summary(arguments, shown, ignored))


def _summary(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic], ignored: Mapping[str, int]) -> str:
    """Return the line below the findings: how many there are, and what follows; nothing without findings."""
    counts = Counter(item.severity for item in found)
    if not counts and not ignored:
        return ""
    severities: tuple[diagnostics.Severity, ...] = ("error", "warning")
    parts = [", ".join(wording.counted(counts[each], each) for each in severities if counts[each])] if counts else []
    if ignored:
        parts.append(diagnostic_formats.ignored_text(ignored))
    if arguments.strict and counts["warning"] and not counts["error"]:
        parts.append("--strict treats warnings as errors")
    if arguments.writes and not arguments.check and concluded(arguments, found):
        parts.append("nothing written")
    return f"{'; '.join(parts)}\n"


def colour(stream: Any, wanted: str = "auto") -> bool:
    """Return whether to print in colour: as --color says, else NO_COLOR and FORCE_COLOR; else on terminals.

    See https://no-color.org and https://force-color.org.
    """
    if wanted != "auto" or os.environ.get("NO_COLOR"):
        return wanted == "always"
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")
