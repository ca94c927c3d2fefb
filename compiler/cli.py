"""The command line of `kae`: its options, and the module of each command.

Only the imports of every call are here; each command module imports the rest.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from compiler import __version__, diagnostic_formats, errors, wording

FINE, WRONG, USAGE, WORLD, DIFFERS = 0, 1, 2, 3, 4
"""Exit codes: fine, documents wrong, usage, I/O error, output or the cluster differs."""

_EPILOG = """exit codes:
  0  fine, warnings included
  1  documents are wrong (with --strict: any warning)
  2  usage
  3  I/O error: a file, a disk, a network
  4  documents are fine, but output/ (compile --check) or the cluster (status) differs from them
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    chosen = _parsed(arguments)
    # Pydantic would look through all installed packages for plugins, at every start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    command = importlib.import_module(f"compiler.commands.{chosen.module}")
    try:
        _enter(chosen.directory)
        code: int = command.run(chosen)
        sys.stdout.flush()
    except errors.WorldError as error:
        sys.stderr.write(f"kae: {wording.escaped(str(error))}\n")
        if error.hint:
            sys.stderr.write(f"hint: {wording.escaped(error.hint)}\n")
        return WORLD
    except BrokenPipeError:
        # The reader went away (`kae plan | head`); Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except OSError as error:
        if error.filename is not None:  # a file's name: unexpected, so it must not be hidden
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr.write(f"kae: standard output cannot be written: {error.strerror}.\n")
        return WORLD
    except KeyboardInterrupt:
        return _interrupted()
    return code


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    top = parser()
    chosen = top.parse_args(arguments)
    if getattr(chosen, "context", None) is not None and chosen.kubeconfig is None:
        top.error("--context is of the file that --kubeconfig names")
    return chosen


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise errors.WorldError(f"'{directory}' cannot be entered: {error.strerror}.") from error


def _interrupted() -> NoReturn:
    """End with the exit code that shells expect after Ctrl-C; the index of an interrupted output says so itself."""
    sys.stderr.write("\n")
    raise SystemExit(130)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="kae",
        description="Compile KAE policies and a snapshot of the nodes into manifests for Argo CD or Flux.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"kae {__version__}")
    top.add_argument("-C", dest="directory", metavar="DIR", default=".", help="run as if in DIR")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _compile(commands)
    _plan(commands)
    _explain(commands)
    _preflight(commands)
    _bump(commands)
    _init(commands)
    _import(commands)
    _inventory(commands)
    _status(commands)
    _schema(commands)
    _completion(commands)
    return top


Commands = argparse._SubParsersAction  # argparse has no public name for this type


def _command(commands: "Commands[argparse.ArgumentParser]", name: str, text: str) -> argparse.ArgumentParser:
    module = {"import": "import_"}.get(name, name)
    command = commands.add_parser(name, help=text, description=text)
    # After the command too, as git's users and kubectl's expect of each other's tools.
    command.add_argument("-C", dest="directory", metavar="DIR", default=argparse.SUPPRESS, help="run as if in DIR")
    command.set_defaults(module=module)
    return command


def _sources(
    command: argparse.ArgumentParser, formats: Sequence[str] = diagnostic_formats.FORMATS, *, strict: bool = True
) -> None:
    command.add_argument("--cluster", action="append", default=[], metavar="NAME", help="only this cluster; repeatable")
    command.add_argument(
        "--inventory",
        action="append",
        default=[],
        metavar="DIR",
        help="read inventories from DIR instead of inventory/; repeatable",
    )
    command.add_argument("--format", choices=formats, default="text", help="the format of the findings")
    if strict:
        command.add_argument("--strict", action="store_true", help="treat warnings as errors")


def _compile(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "compile", "compile policies/ and inventory/ into output/")
    _sources(command)
    command.add_argument("--check", action="store_true", help="write nothing; fail where output/ differs")
    command.add_argument("--output", metavar="DIR", default="output", help="write to DIR instead of output/")
    command.add_argument("--no-cache", action="store_true", help="neither read nor write .kae_cache/")


def _plan(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "plan", "show the policy, the images and the reasons for each node")
    _sources(command, ("text", "json"))


def _explain(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "explain", "show why a node gets, or does not get, each component")
    command.add_argument("node", metavar="CLUSTER/NODE", help="the node; CLUSTER/ may go where there is one cluster")
    _sources(command, ("text", "json"))


def _preflight(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "preflight", "show which policy would serve a kernel that no node runs yet")
    command.add_argument("--kernel", required=True, metavar="VERSION", help="the kernel, as `uname -r` prints it")
    command.add_argument("--os", metavar="NAME", help="the operating system, as a Node's osImage says it")
    _sources(command, ("text", "json"), strict=False)


def _bump(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "bump", "change one version in a policy's file, and nothing else")
    command.add_argument("policy", metavar="POLICY", help="the policy's name")
    part = command.add_mutually_exclusive_group()
    part.add_argument("--wave", metavar="NAME", help="the version of this wave instead of the driver's")
    part.add_argument("--mapping", metavar="NAME", help="the version of this kernel mapping")
    part.add_argument("--frozen", metavar="NAME", help="the version of this frozen group")
    part.add_argument("--device-plugin", action="store_true", help="the version of the device plugin")
    command.add_argument("--version", required=True, type=_utf8, metavar="V", help="the new version")
    command.add_argument("--file", metavar="FILE", help="the file, where several hold a policy of this name")
    command.add_argument("--format", choices=("text", "json"), default="text", help="the format of the result")


def _utf8(text: str) -> str:
    """Return an argument that can be written to a document."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError("it is not UTF-8") from error
    return text


def _init(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "init", "make a new GitOps repository that compiles")
    command.add_argument("path", nargs="?", default=".", metavar="DIR", help="where; the current folder by default")
    command.add_argument("--cluster", default="default", metavar="NAME", help="the first cluster (default: default)")


def _import(commands: "Commands[argparse.ArgumentParser]") -> None:
    text = "turn the KAE Operator's Helm values, or a live KAEPolicy, into documents"
    command = _command(commands, "import", text)
    command.add_argument("file", nargs="?", default="-", help="values.yaml or a KAEPolicy; - reads standard input")
    command.add_argument("--cluster", default="default", metavar="NAME", help="the cluster's name (default: default)")
    command.add_argument(
        "--policy", default=None, metavar="NAME", help="the policy's name (default: the live object's, or kae)"
    )
    command.add_argument(
        "--namespace", default=None, metavar="NAME", help="the namespace of all objects (default: kae-operator)"
    )


def _inventory(commands: "Commands[argparse.ArgumentParser]") -> None:
    text = "print the canonical NodeInventory of a cluster, or of `kubectl get nodes -o json` on standard input"
    command = _command(commands, "inventory", text)
    command.add_argument("--cluster", required=True, metavar="NAME", help="the cluster's name")
    _access(command, required=False)


def _status(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "status", "compare a live cluster with the plan and with output/")
    _sources(command, ("text", "json"))
    _access(command, required=True)
    command.add_argument("--output", metavar="DIR", default="output", help="compare with DIR instead of output/")


def _access(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options that name a live cluster, as in kubectl."""
    command.add_argument("--kubeconfig", required=required, metavar="FILE", help="ask the cluster that FILE leads to")
    command.add_argument("--context", metavar="NAME", help="the context of FILE (default: its current one)")


def _schema(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "schema", "print the JSON Schemas, or the custom resource definitions")
    command.add_argument("name", nargs="?", default=None, help="one schema, such as kaepolicy; all by default")
    command.add_argument("--crd", action="store_true", help="print custom resource definitions, as YAML")
    command.add_argument(
        "--write",
        nargs="?",
        metavar="DIR",
        const="schemas",
        help="write each schema to DIR, by default schemas/",
    )


def _completion(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = _command(commands, "completion", "print a completion script for a shell")
    command.add_argument("shell", choices=("bash", "zsh", "tcsh"))
