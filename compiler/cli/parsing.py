"""The parser of every command: no abbreviations, and the nearest word for one that it does not know."""

import argparse
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from compiler import wording

_CHECK = "`kae compile --check` does that."
_COMPILE = "`kae compile` does that."
_ELSEWHERE = {
    **dict.fromkeys(("check", "lint", "validate"), _CHECK),
    **dict.fromkeys(("build", "template"), _COMPILE),
    "version": "`kae --version` does that.",
    "get": "`kae plan` does that.",
    "describe": "`kae explain` does that.",
    "apply": "kae never writes to a cluster: commit output/, and Argo CD or Flux applies it.",
}
"""The hint for each command of other tools that people try."""


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors end with a hint."""

    renamed: Mapping[str, str] = {}
    """The hint for each option of an earlier release or of another tool."""
    elsewhere: Mapping[str, str] = _ELSEWHERE
    """The hint for each command that people try."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            allow_abbrev=False,  # An abbreviation in a script would change its meaning with the next option.
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **settings,
        )

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the words; refuse unknown options first, as argparse would report what they leave missing."""
        words = list(sys.argv[1:] if args is None else args)
        for word in self._own_options(words):
            name = word.partition("=")[0]
            if name not in self._option_string_actions:
                hint = self.renamed.get(name) or wording.did_you_mean(name, self._option_string_actions)
                self.error(f"there is no option '{name}'.", hint)
        return super().parse_known_args(words, namespace)

    def _own_options(self, words: Iterable[str]) -> list[str]:
        """Return the long options among the words; those after a command are the command's."""
        is_top = self._subparsers is not None
        own = itertools.takewhile(lambda word: word != "--" and (word.startswith("-") or not is_top), words)
        # argparse takes a word with a space for an argument.
        return [word for word in own if word.startswith("--") and " " not in word]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [name for choice in action.choices if not (name := str(choice)).startswith("_")]
        near = wording.did_you_mean(value, known)
        if isinstance(action, argparse._SubParsersAction):
            self.error(
                f"there is no command '{value}'.", self.elsewhere.get(value) or near or "`kae help` lists the commands."
            )
        name = "/".join(action.option_strings) or str(action.metavar or action.dest)
        self.error(f"{name}: '{value}' is not one of {wording.listed(known)}.", near)

    def error(self, message: str, hint: str = "") -> NoReturn:
        """Print the usage, what is wrong with the command line, and what to do; exit with 2."""
        self.print_usage(sys.stderr)
        text = f"{self.prog}: error: {wording.escaped(message)}\n"
        self.exit(2, text + (f"hint: {wording.escaped(hint)}\n" if hint else ""))
