"""`kae help`, and `kae` alone: the help of the command line, or of one command."""

import argparse
import sys

from compiler import cli


def run(arguments: argparse.Namespace) -> int:
    if arguments.topic is not None:
        cli.parser().parse_args([arguments.topic, "--help"])  # which ends the process
    cli.parser().print_help(sys.stdout)
    return cli.FINE
