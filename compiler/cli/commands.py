"""The commands of `kae`: their options, their examples, and the module of each."""

import argparse

from compiler import __version__, diagnostic_formats, wording
from compiler.cli import parsing

_EPILOG = """exit codes:
  0  fine, warnings included
  1  documents are wrong (with --strict: any warning)
  2  usage
  3  I/O error: a file, a disk, a network
  4  documents are fine, but output/ (compile --check) or the cluster (status) differs from them

`kae COMMAND --help` shows the options of a command, with examples.
"""

_DESCRIPTION = "Compile KAE policies and a snapshot of the nodes into manifests for Argo CD or Flux."
_COLORS = ("auto", "always", "never")
_SHAPE = "Write -o json: -o is the shape of an answer, and --format that of the findings of `kae compile`."
_FOLDER = "It is now --output-dir DIR; -o is the shape of the answer."


def parser() -> parsing.Parser:
    """Return the parser of the whole command line."""
    top = parsing.Parser(prog="kae", description=_DESCRIPTION, epilog=_EPILOG)
    top.set_defaults(module="help", topic=None)
    top.add_argument("-V", "--version", action="version", version=f"kae {__version__}")
    top.add_argument("-C", dest="directory", metavar="DIR", default=".", help="run as if in DIR")
    top.add_argument("--color", choices=_COLORS, default="auto", help="colour findings (default: auto)")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
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
    _help(commands)
    return top


Commands = argparse._SubParsersAction  # argparse has no public name for this type


def _command(commands: "Commands[parsing.Parser]", name: str, text: str, *examples: str) -> parsing.Parser:
    module = {"import": "import_"}.get(name, name)
    shown = "\n  ".join(("examples:", *examples)) if examples else None
    command = commands.add_parser(name, help=text, description=text, epilog=shown)
    # After the command too, as git's users and kubectl's expect of each other's tools.
    command.add_argument("-C", dest="directory", metavar="DIR", default=argparse.SUPPRESS, help="run as if in DIR")
    command.add_argument("--color", choices=_COLORS, default=argparse.SUPPRESS, help="colour findings (default: auto)")
    command.set_defaults(module=module)
    return command


def _sources(command: parsing.Parser) -> None:
    command.add_argument("--cluster", action="append", default=[], metavar="NAME", help="only this cluster; repeatable")
    command.add_argument(
        "--inventory",
        action="append",
        default=[],
        metavar="DIR",
        help="read inventories from DIR instead of inventory/; repeatable",
    )


def _strict(command: parsing.Parser) -> None:
    command.add_argument("--strict", action="store_true", help="treat warnings as errors")


def _quiet(command: parsing.Parser) -> None:
    command.add_argument("-q", "--quiet", action="store_true", help="print only findings that stop, and exit by code")


def _answer(command: parsing.Parser) -> None:
    command.add_argument(
        "-o",
        "--output-format",
        dest="shape",
        choices=("text", "json", "yaml"),
        default="text",
        help="the shape of the answer: text (default), json or yaml",
    )
    command.renamed = {"--format": _SHAPE}


def _compile(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "compile",
        "compile policies/ and inventory/ into output/",
        "kae compile",
        "kae compile --check > output.patch    show what a compile would change, and write nothing",
        "kae compile --check --format github   annotate a pull request",
    )
    _sources(command)
    _strict(command)
    _answer(command)
    command.add_argument(
        "--format",
        choices=diagnostic_formats.FORMATS,
        default="text",
        help="the format of the findings: text (default) on standard error, the others on standard output",
    )
    _quiet(command)
    command.add_argument("--check", action="store_true", help="write nothing; fail where output/ differs")
    command.add_argument(
        "--accept",
        action="append",
        default=[],
        type=_scope,
        metavar="CODE[:CLUSTER[/POLICY]]",
        help="let a removal pass, such as removes-drivers:east/tls; repeatable",
    )
    command.add_argument("--output-dir", metavar="DIR", default="output", help="write to DIR instead of output/")
    command.add_argument("--no-cache", action="store_true", help="neither read nor write .kae_cache/")
    command.renamed = {"--output": _FOLDER}


_ACCEPTABLE = (
    *("removes-drivers", "removes-device-plugins", "moves-namespace"),
    *("thaws-nodes", "drops-protection", "inventory-empty"),
)


def _scope(text: str) -> str:
    """Return the scope of removals that a person accepts: CODE[:CLUSTER[/POLICY]]."""
    code = text.partition(":")[0]
    if code not in _ACCEPTABLE:
        near = wording.nearest(code, _ACCEPTABLE)
        hint = f"did you mean '{near}'?" if near else f"it is one of {wording.listed(_ACCEPTABLE)}"
        raise argparse.ArgumentTypeError(f"'{code}' is no code that can be accepted; {hint}")
    return text


def _plan(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "plan",
        "show the state of the fleet: the policy, the images and the reasons for each node",
        "kae plan | less",
        "kae plan --problems",
        "kae plan --policy tls -l 'zone in (a, b),!gpu'",
        "kae plan --cluster east -o json",
    )
    _sources(command)
    command.add_argument(
        "--policy", action="append", default=[], metavar="NAME", help="only the nodes of this policy; repeatable"
    )
    command.add_argument(
        "--node", action="append", default=[], metavar="NODE", help="only this node, or CLUSTER/NODE; repeatable"
    )
    command.add_argument(
        "-l",
        "--selector",
        type=_selector,
        default="",
        metavar="SELECTOR",
        help="only nodes with these labels, in kubectl's syntax: a=b, a!=b, 'a in (b, c)', a, '!a'",
    )
    command.add_argument("--problems", action="store_true", help="only nodes without what their policy promises")
    _strict(command)
    _answer(command)


def _selector(text: str) -> str:
    """Return a label selector that parses."""
    from compiler.fleet import label_selector  # noqa: PLC0415 - it imports the models of documents

    try:
        label_selector.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}.") from error
    return text


def _explain(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "explain",
        "show why a node gets, or does not get, each component",
        "kae explain east/kp920-rack1-03",
        "kae explain kp920-rack1-03 -o json    the cluster is not needed where one node has the name",
    )
    command.add_argument("node", metavar="CLUSTER/NODE", help="the node; CLUSTER/ may go where one node has the name")
    _sources(command)
    _strict(command)
    _answer(command)


def _preflight(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "preflight",
        "show which policy would serve a kernel that no node runs yet",
        "kae preflight --kernel 5.10.0-216.0.0.115.oe2203sp4.aarch64",
        "kae preflight --kernel 6.6.0-28.0.0.34.oe2403.aarch64 --os 'openEuler 24.03 (LTS)' --cluster east",
    )
    command.add_argument("--kernel", required=True, metavar="VERSION", help="the kernel, as `uname -r` prints it")
    command.add_argument("--os", metavar="NAME", help="the operating system, as a Node's osImage says it")
    _sources(command)
    _answer(command)


def _bump(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "bump",
        "change one version in a policy's file, and nothing else",
        "kae bump tls --version 2.3.0",
        "kae bump tls --wave canary --version 2.3.0",
        "kae bump tls --device-plugin --version 1.5.0",
    )
    command.add_argument("policy", metavar="POLICY", help="the policy's name")
    part = command.add_mutually_exclusive_group()
    part.add_argument("--wave", metavar="NAME", help="the version of this wave instead of the driver's")
    part.add_argument("--mapping", metavar="NAME", help="the version of this kernel mapping")
    part.add_argument("--frozen", metavar="NAME", help="the version of this frozen group")
    part.add_argument("--device-plugin", action="store_true", help="the version of the device plugin")
    command.add_argument("--version", required=True, type=_utf8, metavar="V", help="the new version")
    command.add_argument("--file", metavar="FILE", help="the file, where several hold a policy of this name")
    _answer(command)


def _utf8(text: str) -> str:
    """Return an argument that can be written to a document."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError("it is not UTF-8") from error
    return text


def _init(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "init",
        "make a new GitOps repository that compiles",
        "kae init",
        "kae init fleet --cluster east",
    )
    command.add_argument("path", nargs="?", default=".", metavar="DIR", help="where; the current folder by default")
    command.add_argument("--cluster", default="default", metavar="NAME", help="the first cluster (default: default)")


def _import(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "import",
        "turn the KAE Operator's Helm values, or a live KAEPolicy, into documents",
        "kae import values.yaml --cluster east > policies/east.yaml",
        "kubectl get kaepolicy kae -o yaml | kae import --cluster east",
    )
    command.add_argument("file", nargs="?", default="-", help="values.yaml or a KAEPolicy; - reads standard input")
    command.add_argument("--cluster", default="default", metavar="NAME", help="the cluster's name (default: default)")
    command.add_argument(
        "--policy", default=None, metavar="NAME", help="the policy's name (default: the live object's, or kae)"
    )
    command.add_argument(
        "--namespace", default=None, metavar="NAME", help="the namespace of all objects (default: kae-operator)"
    )


def _inventory(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "inventory",
        "take the inventory of a live cluster, or of `kubectl get nodes -o json` on standard input",
        "kubectl get nodes -o json | kae inventory --cluster east -o inventory/east.json",
        "kae inventory --cluster east --context east-admin -o inventory/east.json",
    )
    command.add_argument("--cluster", required=True, metavar="NAME", help="the cluster's name")
    command.add_argument(
        "-o", "--output-file", dest="file", metavar="FILE", help="write FILE whole or not at all, instead of printing"
    )
    _access(command)


def _status(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "status",
        "compare a live cluster with the plan and with output/",
        "kae status --cluster east",
        "kae status --cluster east --kubeconfig ~/.kube/config --context east-admin -o json",
    )
    _sources(command)
    _strict(command)
    _answer(command)
    _quiet(command)
    _access(command)
    command.add_argument("--output-dir", metavar="DIR", default="output", help="compare with DIR instead of output/")
    command.renamed = {**command.renamed, "--output": _FOLDER}


def _access(command: parsing.Parser) -> None:
    """Add the options that name a live cluster, as in kubectl."""
    command.add_argument("--kubeconfig", metavar="FILE", help="ask the cluster that FILE leads to")
    command.add_argument("--context", metavar="NAME", help="the context of the kubeconfig (default: its current one)")


def _schema(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "schema",
        "print the JSON Schemas, or the custom resource definitions",
        "kae schema",
        "kae schema kaepolicy > kaepolicy.json",
        "kae schema --crd | kubectl apply -f -",
    )
    command.add_argument("name", nargs="?", default=None, help="one schema, such as kaepolicy; all by default")
    command.add_argument("--crd", action="store_true", help="print custom resource definitions, as YAML")
    command.add_argument(
        "--write",
        nargs="?",
        metavar="DIR",
        const="schemas",
        help="write each schema to DIR, by default schemas/",
    )


def _completion(commands: "Commands[parsing.Parser]") -> None:
    command = _command(
        commands,
        "completion",
        "print a completion script for a shell",
        'eval "$(kae completion bash)"    in ~/.bashrc',
    )
    command.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def _help(commands: "Commands[parsing.Parser]") -> None:
    command = _command(commands, "help", "show the help of a command", "kae help compile")
    command.add_argument("topic", nargs="?", metavar="COMMAND", help="the command; all of them by default")
