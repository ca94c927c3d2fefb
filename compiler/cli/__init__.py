"""The command line of `kae`: it parses the arguments, runs the command and returns the exit code.

Only the imports of every call are here; the module of the command imports the rest.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from compiler import errors, wording
from compiler.cli import parsing
from compiler.project import project_file

FINE, WRONG, USAGE, WORLD, DIFFERS, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes: fine, documents wrong, usage, I/O error, output or the cluster differs, Ctrl-C as shells count it."""

_READER_GONE = 141
"""The exit code that shells give a program that SIGPIPE ends: 128 and the signal's number."""

parser = parsing.parser


class WrongError(Exception):
    """The findings of a command end it; they are printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Pydantic would look through all installed packages for plugins, at every start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    chosen = _parsed(arguments)
    command = importlib.import_module(f"compiler.commands.{chosen.module}")
    try:
        _enter(chosen.directory)
        if chosen.in_project:
            project_file.enter(chosen)
        code: int = command.run(chosen)
        sys.stdout.flush()
    except WrongError:
        return WRONG
    except project_file.WrongFileError as refused:
        code = importlib.import_module("compiler.cli.findings").refused(chosen, refused.findings)
    except errors.WorldError as error:
        sys.stderr.write(f"kae: {wording.escaped(str(error))}\n")
        if error.hint:
            sys.stderr.write(f"hint: {wording.escaped(error.hint)}\n")
        return WRONG if isinstance(error, errors.RefusedError) else WORLD
    except BrokenPipeError:
        # The reader went away (`kae plan | head`); Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    except OSError as error:
        if error.filename is not None:  # a file's name: unexpected, so it must not be hidden
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr.write(f"kae: standard output cannot be written: {error.strerror}.\n")
        return WORLD
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise SystemExit(INTERRUPTED) from None  # The index of an interrupted output says so itself.
    return code


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = sys.argv[1:] if arguments is None else arguments
    top = parsing.parser_for(words)
    chosen = top.parse_args(words)
    if chosen.shape != "text" and chosen.format not in ("text", "json"):
        top.error(f"-o {chosen.shape} and --format {chosen.format} both print to standard output; choose one.")
    return chosen


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise errors.WorldError(f"'{directory}' cannot be entered: {error.strerror}.") from error


def piped(hint: str) -> tuple[str, bytes]:
    """Return a file name and the bytes of standard input; they are JSON if the first byte that is no space is '{'.

    Raises RefusedError with the hint where standard input is closed or empty.
    """
    source: TextIO | None = sys.stdin  # None where the caller closed it
    if source is None:
        raise errors.RefusedError("standard input is closed.", hint=hint)
    found = source.buffer.read()
    if not found.strip():
        raise errors.RefusedError("standard input is empty: the command before the pipe printed nothing.", hint=hint)
    return ("stdin.json" if found.lstrip()[:1] == b"{" else "stdin.yaml"), found
