"""`kae __complete`: the words that may follow on a command line, which the scripts of `kae completion` ask for."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from compiler import cli, errors


def run(arguments: argparse.Namespace) -> int:
    """Print the candidates for the last word of a line, one on each line; nothing where it may be any file."""
    before, _, word = arguments.line.rpartition(" ")
    with contextlib.suppress(errors.WorldError, OSError):
        for candidate in _candidates(before.split()[1:], word):
            # A shell takes each line for a word, and a document may hold anything.
            if candidate.startswith(word) and candidate.isprintable() and " " not in candidate:
                sys.stdout.write(f"{candidate}\n")
    return cli.FINE


_Typed = tuple[cli.Parser, argparse.Action | None, argparse.Action | None, Mapping[str, str]]
"""The parser of a command, the option whose value the next word is, the argument that it is if there is none, and the
last value of each by destination."""


def _typed(words: Sequence[str]) -> _Typed:
    parser = cli.parser()
    option, values, count = None, dict[str, str](), 0
    for word in words:
        commands = parser.commands()
        if option is not None:
            values[option.dest], option = word, None
        elif word.startswith("-"):
            found = parser._option_string_actions.get(word)
            option = found if found is not None and found.nargs != 0 else None
        elif word in commands:
            parser = commands[word].declared()
        else:
            action = _argument(parser, count)
            values[action.dest if action else ""], count = word, count + 1
    return parser, option, _argument(parser, count), values


def _argument(parser: cli.Parser, number: int) -> argparse.Action | None:
    actions = [action for action in parser._actions if not action.option_strings]
    return actions[number] if number < len(actions) else None


def _candidates(words: Sequence[str], word: str) -> Iterable[str]:
    parser, option, argument, values = _typed(words)
    if option is None and word.startswith("-"):
        return [name for name in parser._option_string_actions if name.startswith("--") or len(word) == 1]
    if option is None and (verbs := parser.commands()):
        return verbs
    action = option or argument
    if action is None:
        return ()
    if action.choices is not None:
        return map(str, action.choices)
    from compiler.commands import complete_names  # noqa: PLC0415 - most words are known without the documents

    os.chdir(values.get("directory", "."))
    return complete_names.of(action.dest, values)
