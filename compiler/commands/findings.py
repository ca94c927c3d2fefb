"""The end of a command: its findings in the requested format, and its exit code."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from compiler import cli, diagnostic_formats, diagnostics, wording

_WRITING = ("bump", "compile")


def concluded(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> bool:
    """Return whether the findings end the command: errors, or with --strict any warning."""
    return any(_stops(arguments, item) for item in found)


def _stops(arguments: argparse.Namespace, finding: diagnostics.Diagnostic) -> bool:
    return finding.severity == "error" or getattr(arguments, "strict", False)


def show(
    arguments: argparse.Namespace, found: tuple[diagnostics.Diagnostic, ...], body: str = "", **result: Any
) -> None:
    """Print the findings, and a command's answer: `body` for people, `result` for programs.

    Standard output holds one thing. An answer in JSON or YAML holds the findings too; findings in JSON or SARIF leave
    the answer for people to standard error.
    """
    if getattr(arguments, "quiet", False):
        found, body = tuple(item for item in found if _stops(arguments, item)), ""
    form = getattr(arguments, "format", "text")
    if arguments.shape != "text":
        sys.stdout.write(diagnostic_formats.answer(arguments.shape, found, **result))
    elif form in ("text", "github"):
        sys.stdout.write((diagnostic_formats.github(found) if form == "github" else "") + body)
    else:
        is_sarif = form == "sarif"
        text = diagnostic_formats.sarif(found, _examples()) if is_sarif else diagnostic_formats.json_text(found)
        sys.stdout.write(text)
        sys.stderr.write(body)
    sys.stdout.flush()
    if form == "text":
        report(arguments, found)


def _examples() -> Mapping[str, str]:
    from compiler.project import package_data  # noqa: PLC0415 - needed here only

    return package_data.examples()


def report(arguments: argparse.Namespace, found: tuple[diagnostics.Diagnostic, ...]) -> None:
    """Print the findings for people, and their summary."""
    sys.stdout.flush()
    sys.stderr.write(diagnostic_formats.text(found, colour=colour(sys.stderr, arguments.color)))
    sys.stderr.write(_summary(arguments, found))


def _summary(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> str:
    """Return the line below the findings: how many there are, and what follows; nothing without findings."""
    counts = Counter(item.severity for item in found)
    if not counts:
        return ""
    severities: tuple[diagnostics.Severity, ...] = ("error", "warning")
    parts = [", ".join(wording.counted(counts[each], each) for each in severities if counts[each])]
    if getattr(arguments, "strict", False) and not counts["error"]:
        parts.append("--strict treats warnings as errors")
    if concluded(arguments, found) and arguments.module in _WRITING and not getattr(arguments, "check", False):
        parts.append("nothing written")
    return f"{'; '.join(parts)}\n"


def colour(stream: Any, wanted: str = "auto") -> bool:
    """Return whether to print in colour: as --color says, else NO_COLOR and FORCE_COLOR; else on terminals.

    See https://no-color.org and https://force-color.org.
    """
    if wanted != "auto" or os.environ.get("NO_COLOR"):
        return wanted == "always"
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def exit_code(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> int:
    """Return 1 where the documents are wrong, otherwise 0."""
    return cli.WRONG if concluded(arguments, found) else cli.FINE
