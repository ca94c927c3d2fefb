"""The end of a command: its findings in the requested format, and its exit code."""

import argparse
import os
import sys
from collections.abc import Iterable
from typing import Any

from compiler import cli, diagnostic_formats, diagnostics


def concluded(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> bool:
    """Return whether the findings end the command: errors, or with --strict any warning."""
    return any(item.severity == "error" or arguments.strict for item in found)


def show(
    arguments: argparse.Namespace, found: tuple[diagnostics.Diagnostic, ...], body: str = "", **result: Any
) -> None:
    """Print the findings, and a command's answer: `body` for people, `result` for programs.

    Standard output holds one thing. An answer in JSON or YAML holds the findings too; findings in JSON or SARIF leave
    the answer for people to standard error.
    """
    form = getattr(arguments, "format", "text")
    if arguments.shape != "text":
        sys.stdout.write(diagnostic_formats.answer(arguments.shape, found, **result))
    elif form in ("text", "github"):
        sys.stdout.write((diagnostic_formats.github(found) if form == "github" else "") + body)
    else:
        render = diagnostic_formats.sarif if form == "sarif" else diagnostic_formats.json_text
        sys.stdout.write(render(found))
        sys.stderr.write(body)
    sys.stdout.flush()
    if form == "text":
        sys.stderr.write(diagnostic_formats.text(found, colour=colour(sys.stderr)))


def colour(stream: Any) -> bool:
    """Return whether to print in colour: on terminals, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def exit_code(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> int:
    """Return 1 where the documents are wrong, otherwise 0."""
    return cli.WRONG if concluded(arguments, found) else cli.FINE
