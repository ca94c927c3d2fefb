"""`kae config`: print a setting of the project, for the scripts of CI jobs."""

import argparse
import sys
from dataclasses import replace

from compiler import cli
from compiler.project import project_file
from compiler.settings import Settings


def run(arguments: argparse.Namespace) -> int:
    """Print the folder of outputs, as it is now or as a revision names it, and return the exit code."""
    settings = project_file.of(arguments) if arguments.revision is None else _earlier(arguments.revision)
    sys.stdout.write(f"{project_file.output(settings)}\n")
    return cli.FINE


def _earlier(revision: str) -> Settings:
    from compiler.project.history import earlier_settings  # noqa: PLC0415 - only where git is asked

    return replace(Settings(), output=earlier_settings.output(revision))
