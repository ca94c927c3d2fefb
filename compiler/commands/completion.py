"""`kae completion`: a completion script for a shell."""

import argparse
import sys

from compiler import cli


def run(arguments: argparse.Namespace) -> int:
    """Print the script; `eval "$(kae completion bash)"` in ~/.bashrc makes it work."""
    import shtab  # noqa: PLC0415 - needed here only

    sys.stdout.write(shtab.complete(cli.parser(), arguments.shell) + "\n")
    return cli.FINE
