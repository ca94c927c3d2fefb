"""The command line of `kae`: it parses the arguments, runs the command and returns the exit code.

Only the imports of every call are here, those of `kae --version` too: the module of the command imports the rest.
"""

import argparse
import contextlib
import functools
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TextIO, TypeAlias, cast

from compiler import __version__, errors, wording

FINE, WRONG, USAGE, WORLD, DIFFERS, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes: fine, documents wrong, usage, I/O error, output or the cluster differs, Ctrl-C as shells count it."""

_READER_GONE = 141
"""The exit code that shells give a program that SIGPIPE ends: 128 and the signal's number."""

_DESCRIPTION = "Compile KAE policies and a snapshot of the nodes into manifests for Argo CD or Flux."
_EPILOG = """exit codes:
  0  fine, warnings included
  1  documents are wrong (with --strict: any warning)
  2  usage
  3  I/O error: a file, a disk, a network
  4  documents are fine, but output/ (compile --check) or the cluster (status, rehearse) differs from them

`kae COMMAND --help` shows the options of a command, with examples.
"""

_ELSEWHERE = {
    **dict.fromkeys(("check", "lint", "validate"), "`kae compile --check` does that."),
    **dict.fromkeys(("build", "template"), "`kae compile` does that."),
    "version": "`kae --version` does that.",
    "get": "`kae plan` does that.",
    "describe": "`kae explain` does that.",
    "apply": "kae applies nothing: commit output/, and Argo CD or Flux applies it.",
}
"""The hint for each command of other tools that people try."""

_COLORS = ("auto", "always", "never")


@functools.cache
def _width() -> int:
    """Return the width of help; argparse would ask for it, by shutil, which takes 3 ms to import, for each option."""
    with contextlib.suppress(ValueError, OSError):
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns) - 2
    return 78


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, width=_width())


class WrongError(Exception):
    """The findings of a command end it; they are printed."""


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors end with a hint."""

    declare: "Callable[[Parser], None] | None" = None
    """Adds the options; None once it has."""
    renamed: Mapping[str, str] = {}
    """The hint for each option of an earlier release or of another tool."""
    elsewhere: Mapping[str, str] = _ELSEWHERE
    """The hint for each command that people try."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            allow_abbrev=False,  # An abbreviation in a script would change its meaning with the next option.
            formatter_class=_formatter,
            **settings,
        )

    def examples(self, *lines: str) -> None:
        """Show examples below the help."""
        self.epilog = "\n  ".join(("examples:", *lines))

    def commands(self) -> Mapping[str, "Parser"]:
        """Return the commands that people may write, or the verbs of a command."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return {name: each for name, each in action.choices.items() if not name.startswith("_")}
        return {}

    def declared(self) -> "Parser":
        """Return the parser with all its options, which the first call adds."""
        declare, self.declare = self.declare, None
        if declare is not None:
            declare(self)
        return self

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the words; refuse unknown options first, as argparse would report what they leave missing."""
        self.declared()
        words = list(sys.argv[1:] if args is None else args)
        for word in self._own_options(words):
            name = word.partition("=")[0] if word.startswith("--") else word[:2]
            if name not in self._option_string_actions:
                hint = self.renamed.get(name) or wording.did_you_mean(name, self._option_string_actions)
                self.error(f"there is no option '{name}'.", hint)
        return super().parse_known_args(words, namespace)

    def _own_options(self, words: Iterable[str]) -> list[str]:
        """Return the options among the words; those after a command are the command's."""
        is_top = self._subparsers is not None
        own = itertools.takewhile(lambda word: word != "--" and (word.startswith("-") or not is_top), words)
        # argparse takes a word with a space for an argument.
        return [word for word in own if word.startswith("-") and word != "-" and " " not in word]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [name for choice in action.choices if not (name := str(choice)).startswith("_")]
        near = wording.did_you_mean(value, known)
        if isinstance(action, argparse._SubParsersAction):
            hint = self.elsewhere.get(value) or near or "`kae help` lists the commands."
            self.error(f"there is no command '{value}'.", hint)
        name = "/".join(action.option_strings) or str(action.metavar or action.dest)
        self.error(f"{name}: '{value}' is not one of {wording.listed(known)}.", near)

    def error(self, message: str, hint: str = "") -> NoReturn:
        """Print the usage, what is wrong with the command line, and what to do; exit with 2."""
        self.print_usage(sys.stderr)
        text = f"{self.prog}: error: {wording.escaped(message)}\n"
        self.exit(2, text + (f"hint: {wording.escaped(hint)}\n" if hint else ""))


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # argparse has no public name for this type


@functools.cache
def parser(only: str | None = None) -> Parser:
    """Return the parser of the whole command line, or, as that is a tenth of a quick call, with `only` one command."""
    top = Parser(prog="kae", description=_DESCRIPTION, epilog=_EPILOG)
    top.set_defaults(module="help", topic=None, in_project=False)
    # What a command without these options has.
    top.set_defaults(shape="text", format="text", strict=False, quiet=False, writes=False, check=False)
    top.add_argument("-V", "--version", action="version", version=f"kae {__version__}")
    top.add_argument("-C", dest="directory", metavar="DIR", default=".", help="run as if in DIR")
    top.add_argument("--color", choices=_COLORS, default="auto", help="colour findings (default: auto)")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", prog=top.prog)
    known = _commands()
    for name in known if only is None else (only,):
        command = added(commands, name, known[name].text)
        module = {"import": "import_"}.get(name, name.replace("-", "_"))
        command.set_defaults(module=module, in_project=True)
        command.declare = known[name].declare
    if only is None:
        hidden = commands.add_parser("__complete")  # Only shells call it, so no help lists it.
        hidden.set_defaults(module="complete", in_project=False)
        hidden.add_argument("line")
    return top


def _commands() -> Mapping[str, Any]:
    """Return the commands by name; their module imports this one."""
    return cast("Mapping[str, Any]", importlib.import_module("compiler.cli.commands").COMMANDS)


def added(commands: Commands, name: str, text: str) -> Parser:
    """Add a command, or a verb of one, with the options of all."""
    command = commands.add_parser(name, help=text, description=text)
    # After the command too, as git's users and kubectl's expect of each other's tools.
    command.add_argument("-C", dest="directory", metavar="DIR", default=argparse.SUPPRESS, help="run as if in DIR")
    command.add_argument("--color", choices=_COLORS, default=argparse.SUPPRESS, help="colour findings (default: auto)")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Pydantic would look through all installed packages for plugins, at every start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    chosen = _parsed(arguments)
    command = importlib.import_module(f"compiler.commands.{chosen.module}")
    try:
        _enter(chosen.directory)
        if chosen.in_project:
            importlib.import_module("compiler.project.project_file").enter(chosen)
        code: int = command.run(chosen)
        sys.stdout.flush()
    except WrongError:
        return WRONG
    except errors.WrongFileError as refused:
        importlib.import_module("compiler.project.project_file").remember(chosen, {})
        code = importlib.import_module("compiler.cli.findings").show(chosen, refused.findings)
    except errors.WorldError as error:
        _tell(chosen, error)
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


def _tell(chosen: argparse.Namespace, error: errors.WorldError) -> None:
    """Print why a call failed, for people, and to a program that reads JSON or YAML as that."""
    if chosen.shape in ("json", "yaml"):
        formats = importlib.import_module("compiler.diagnostic_formats")
        said = {"message": str(error), "hint": error.hint or None}
        sys.stdout.writelines(formats.answer(chosen.shape, (), error=said))
        sys.stdout.flush()
    sys.stderr.write(f"kae: {wording.escaped(str(error))}\n")
    if error.hint:
        sys.stderr.write(f"hint: {wording.escaped(error.hint)}\n")


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = sys.argv[1:] if arguments is None else arguments
    top = parser(words[0] if words and words[0] in _commands() else None)
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
