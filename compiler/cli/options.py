"""Options that several commands have, and the types of their arguments.

argparse reports each ArgumentTypeError with the option, and exits with 2.
"""

import argparse
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from compiler import cli, diagnostics, names, wording
from compiler.project.by_cluster import shards

_MOST_JOBS = 1024
_OUTPUT = "It is now --output-dir DIR; -o is the shape of the answer."
_SHAPE = (
    "Write -o json: -o is the shape of an answer, and --format that of the findings of `kae compile` and `kae diff`."
)

Container: TypeAlias = "argparse._ActionsContainer"  # argparse has no public name for a parser or a group of options


def sources(command: cli.Parser, *, by_shard: bool = False) -> None:
    """Add the options that choose clusters and inventories; `by_shard` adds --shard, which takes the place of names."""
    choice = command.add_mutually_exclusive_group()
    repeatable(choice, "--cluster", "NAME", "only this cluster")
    if by_shard:
        shard(choice)
    repeatable(command, "--inventory", "DIR", "read inventories from DIR instead of inventory/")


def repeatable(command: Container, name: str, metavar: str, text: str, **settings: Any) -> None:
    """Add an option that a call may give several times."""
    command.add_argument(name, action="append", default=[], metavar=metavar, help=f"{text}; repeatable", **settings)


def once(command: Container, name: str, text: str, **settings: Any) -> None:
    """Add an option that a call may give once: of two answers to one question, neither is silently dropped."""
    command.add_argument(name, action=_Once, help=text, **settings)


class _Once(argparse.Action):
    """Stores a value, and refuses a second one."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "it is given twice, and there is one of it")
        setattr(namespace, self.dest, values)


def shard(command: Container) -> None:
    """Add --shard."""
    text = "only the clusters of part I of N, with I from 0, for one of several machines"
    command.add_argument("--shard", type=_shard, default=shards.Shard(), metavar="I/N", help=text)


def jobs(command: cli.Parser) -> None:
    """Add --jobs."""
    text = "the most processes at a time (default: the cores that kae may use); small fleets take one"
    command.add_argument("--jobs", type=number(1, _MOST_JOBS, "processes"), metavar="N", help=text)


def accept(command: cli.Parser, text: str) -> None:
    """Add --accept with its help."""
    repeatable(command, "--accept", "CODE[:CLUSTER[/POLICY]]", text, type=_scope)


def verdict(command: cli.Parser, *, has_formats: bool = False) -> None:
    """Add the options of an answer that comes with findings."""
    strict(command)
    answer(command)
    if has_formats:
        finding_format(command)
    quiet(command)


def strict(command: cli.Parser) -> None:
    """Add --strict."""
    command.add_argument("--strict", action="store_true", help="treat warnings as errors")


def quiet(command: cli.Parser) -> None:
    """Add --quiet."""
    command.add_argument("-q", "--quiet", action="store_true", help="print only findings that stop, and exit by code")


def answer(command: cli.Parser, *more: str) -> None:
    """Add the shape of the answer; `more` are shapes that only this command has."""
    shapes = ("text", "json", "yaml", *more)
    text = f"the shape of the answer: text (default), {', '.join(shapes[1:-1])} or {shapes[-1]}"
    command.add_argument("-o", "--output-format", dest="shape", choices=shapes, default="text", help=text)
    command.renamed = {"--format": _SHAPE, "--json": "Write -o json."}


def finding_format(command: cli.Parser) -> None:
    """Add the format of the findings."""
    from compiler import diagnostic_formats  # noqa: PLC0415 - 8 ms, which the help of the others saves

    text = "the format of the findings: text (default) on standard error, the others on standard output"
    command.add_argument("--format", choices=diagnostic_formats.FORMATS, default="text", help=text)


def output_folder(command: cli.Parser, text: str) -> None:
    """Add --output-dir with its help, after the shape of the answer."""
    command.add_argument("--output-dir", metavar="DIR", help=text)
    command.renamed = {**command.renamed, "--output": _OUTPUT}


def live(command: cli.Parser, text: str = "ask the cluster that FILE leads to") -> None:
    """Add the options that name a live cluster, as in kubectl."""
    command.add_argument("--kubeconfig", metavar="FILE", help=text)
    command.add_argument("--context", metavar="NAME", help="the context of the kubeconfig (default: its current one)")


def document(command: cli.Parser, *formats: str) -> None:
    """Add the options of a document that is printed: its format, by default the first, and the file to write."""
    text = f"the format of the document: {' or '.join((f'{formats[0]} (default)', *formats[1:]))}"
    command.add_argument(
        "-o",
        "--output-format",
        dest="document_format",
        type=_document_format,
        choices=formats,
        default=formats[0],
        help=text,
    )
    text = "write FILE whole or not at all, instead of printing"
    command.add_argument("--output-file", dest="target", metavar="FILE", help=text)
    command.renamed = {**command.renamed, "--output": "Write --output-file FILE."}


def _document_format(text: str) -> str:
    """Return the format of a document; it was the file to write once."""
    if "." in text or "/" in text:
        raise argparse.ArgumentTypeError(f"'{text}' is no format; write --output-file {text}")
    return text


def matching(noun: str, pattern: str, most: int, form: str) -> Callable[[str], str]:
    """Return the type of arguments that match a pattern, with at most so many characters; `form` says so to people."""

    def judged(text: str) -> str:
        if len(text) > most or not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"'{text}' is not {noun}; use {form}.")
        return text

    return judged


_CLUSTER = f"lower-case letters, digits, '-' and '.', at most {names.CLUSTER_LENGTH}"
cluster = matching("the name of a cluster", names.CLUSTER_PATTERN, names.CLUSTER_LENGTH, _CLUSTER)
"""The type of a cluster's name."""


def pci_id(text: str) -> str:
    """Return a PCI id as recipes have it; lspci and drivers print it with 0x or capitals, too."""
    found = text.lower().removeprefix("0x")
    if not re.fullmatch("[0-9a-f]{4}", found):
        raise argparse.ArgumentTypeError(f"'{text}' is no PCI id; use four hexadecimal digits, as of `lspci -nn`.")
    return found


def named_cluster(command: cli.Parser, text: str) -> None:
    """Add --cluster with its help, for a cluster that no document need name."""
    text = f"{text} (default: default)"
    command.add_argument("--cluster", default="default", type=cluster, metavar="NAME", help=text)


def utf8(text: str) -> str:
    """Return an argument that can be written to a document."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError("it is not UTF-8") from error
    return text


def number(least: int, most: int, noun: str) -> Callable[[str], int]:
    """Return the type of arguments that are numbers from `least` to `most`; the noun says of what."""

    def judged(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            form = f"a number from {least} to {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a number of {noun}; use {form}.")
        return int(text)

    return judged


def share(text: str) -> float:
    """Return a share, from 0 to 1."""
    if re.fullmatch(r"0|1|1\.0+|0?\.[0-9]{1,9}", text) is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a share; use a number from 0 to 1, such as 0.01.")
    return float(text)


def _shard(text: str) -> shards.Shard:
    try:
        return shards.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _scope(text: str) -> str:
    """Return the scope of what a person accepts: CODE[:CLUSTER[/POLICY]]."""
    code = text.partition(":")[0]
    if code not in diagnostics.ACCEPTABLE:
        near = wording.nearest(code, diagnostics.ACCEPTABLE)
        hint = f"did you mean '{near}'?" if near else f"it is one of {wording.listed(diagnostics.ACCEPTABLE)}"
        raise argparse.ArgumentTypeError(f"'{code}' is no code that can be accepted; {hint}")
    return text
