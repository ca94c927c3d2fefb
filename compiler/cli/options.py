"""Options that several commands have, and the making of a command."""

import argparse
from typing import TypeAlias

from compiler import diagnostic_formats
from compiler.cli import arguments, parsing
from compiler.project.by_cluster import shards

COLORS = ("auto", "always", "never")
_SHAPE = (
    "Write -o json: -o is the shape of an answer, and --format that of the findings of `kae compile` and `kae diff`."
)
OUTPUT_FOLDER = "It is now --output-dir DIR; -o is the shape of the answer."

Commands: TypeAlias = "argparse._SubParsersAction[parsing.Parser]"  # argparse has no public name for this type
Container: TypeAlias = "argparse._ActionsContainer"  # nor for this one, a parser or a group of its options


def command(commands: Commands, name: str, text: str, *examples: str) -> parsing.Parser:
    """Add a command with its help and examples."""
    module = {"import": "import_"}.get(name, name.replace("-", "_"))
    shown = "\n  ".join(("examples:", *examples)) if examples else None
    command = commands.add_parser(name, help=text, description=text, epilog=shown)
    # After the command too, as git's users and kubectl's expect of each other's tools.
    command.add_argument("-C", dest="directory", metavar="DIR", default=argparse.SUPPRESS, help="run as if in DIR")
    command.add_argument("--color", choices=COLORS, default=argparse.SUPPRESS, help="colour findings (default: auto)")
    command.set_defaults(module=module)
    return command


def sources(command: parsing.Parser, *, by_shard: bool = False) -> None:
    """Add the options that choose clusters and inventories; `by_shard` adds --shard, which takes the place of names."""
    choice = command.add_mutually_exclusive_group()
    choice.add_argument("--cluster", action="append", default=[], metavar="NAME", help="only this cluster; repeatable")
    if by_shard:
        shard(choice)
    command.add_argument(
        "--inventory",
        action="append",
        default=[],
        metavar="DIR",
        help="read inventories from DIR instead of inventory/; repeatable",
    )


def shard(command: Container) -> None:
    """Add --shard."""
    command.add_argument(
        "--shard",
        type=arguments.shard,
        default=shards.Shard(),
        metavar="I/N",
        help="only the clusters of part I of N, with I from 0, for one of several machines",
    )


def jobs(command: parsing.Parser) -> None:
    """Add --jobs."""
    command.add_argument(
        "--jobs",
        type=arguments.jobs,
        metavar="N",
        help="the most processes at a time (default: the cores that kae may use); small fleets take one",
    )


def recipe(command: parsing.Parser, text: str) -> None:
    """Add --recipe with its help."""
    command.add_argument("--recipe", action="append", default=[], dest="recipes", metavar="NAME", help=text)


def strict(command: parsing.Parser) -> None:
    """Add --strict."""
    command.add_argument("--strict", action="store_true", help="treat warnings as errors")


def quiet(command: parsing.Parser) -> None:
    """Add --quiet."""
    command.add_argument("-q", "--quiet", action="store_true", help="print only findings that stop, and exit by code")


def answer(command: parsing.Parser, *more: str) -> None:
    """Add the shape of the answer; `more` are shapes that only this command has."""
    shapes = ("text", "json", "yaml", *more)
    command.add_argument(
        "-o",
        "--output-format",
        dest="shape",
        choices=shapes,
        default="text",
        help=f"the shape of the answer: text (default), {', '.join(shapes[1:-1])} or {shapes[-1]}",
    )
    command.renamed = {"--format": _SHAPE, "--json": "Write -o json."}


def finding_format(command: parsing.Parser) -> None:
    """Add the format of the findings."""
    command.add_argument(
        "--format",
        choices=diagnostic_formats.FORMATS,
        default="text",
        help="the format of the findings: text (default) on standard error, the others on standard output",
    )


def whole_file(command: argparse.ArgumentParser) -> None:
    """Add the option that names the file to write."""
    text = "write FILE whole or not at all, instead of printing"
    command.add_argument("-o", "--output-file", dest="target", metavar="FILE", help=text)


def access(command: parsing.Parser) -> None:
    """Add the options that name a live cluster, as in kubectl."""
    command.add_argument("--kubeconfig", metavar="FILE", help="ask the cluster that FILE leads to")
    command.add_argument("--context", metavar="NAME", help="the context of the kubeconfig (default: its current one)")
