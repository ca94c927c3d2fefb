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
    """Print the findings, and a command's result: `body` for people, `result` for programs."""
    if arguments.format == "text":
        sys.stdout.write(body)
        sys.stdout.flush()
        sys.stderr.write(diagnostic_formats.text(found, colour=colour(sys.stderr)))
    elif arguments.format == "json":
        sys.stdout.write(diagnostic_formats.json_text(found, **result))
    elif arguments.format == "github":
        sys.stdout.write(diagnostic_formats.github(found))
    else:
        sys.stdout.write(diagnostic_formats.sarif(found))


def colour(stream: Any) -> bool:
    """Return whether to print in colour: on terminals, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def exit_code(arguments: argparse.Namespace, found: Iterable[diagnostics.Diagnostic]) -> int:
    """Return 1 where the documents are wrong, otherwise 0."""
    return cli.WRONG if concluded(arguments, found) else cli.FINE
