"""`kae help`, and `kae` alone: the help of the command line, or of one command."""

import argparse
import sys

from compiler import cli


def declare(command: cli.Parser) -> None:
    command.examples("kae help compile")
    command.set_defaults(in_project=False)
    command.add_argument("topic", nargs="?", metavar="COMMAND", help="the command; all of them by default")


def run(arguments: argparse.Namespace) -> int:
    if arguments.topic is not None:
        cli.parser().parse_args([arguments.topic, "--help"])  # which ends the process
    cli.parser().print_help(sys.stdout)
    return cli.FINE
