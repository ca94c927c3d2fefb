"""The commands of `kae`: their options, their examples, and the module of each."""

import argparse
import functools
from collections.abc import Callable, Sequence

from compiler import __version__, diagnostics, wording
from compiler.cli import arguments, live_commands, options, parsing, recipe_commands, reference_commands

_EPILOG = """exit codes:
  0  fine, warnings included
  1  documents are wrong (with --strict: any warning)
  2  usage
  3  I/O error: a file, a disk, a network
  4  documents are fine, but output/ (compile --check) or the cluster (status) differs from them

`kae COMMAND --help` shows the options of a command, with examples.
"""

_DESCRIPTION = "Compile KAE policies and a snapshot of the nodes into manifests for Argo CD or Flux."


@functools.cache
def parser(only: str | None = None) -> parsing.Parser:
    """Return the parser of the whole command line, or, as that is a tenth of a quick call, with `only` one command."""
    top = parsing.Parser(prog="kae", description=_DESCRIPTION, epilog=_EPILOG)
    top.set_defaults(module="help", topic=None)
    top.add_argument("-V", "--version", action="version", version=f"kae {__version__}")
    top.add_argument("-C", dest="directory", metavar="DIR", default=".", help="run as if in DIR")
    top.add_argument("--color", choices=options.COLORS, default="auto", help="colour findings (default: auto)")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", prog=top.prog)
    for name, add in _commands().items():
        if only in (None, name):
            add(commands)
    return top


def parser_for(words: Sequence[str]) -> parsing.Parser:
    """Return a parser of these words: of the one command that they begin with, else of the whole command line."""
    return parser(words[0] if words and words[0] in _commands() else None)


def _commands() -> dict[str, Callable[[options.Commands], None]]:
    """Return the functions that add the commands, by the names of the commands."""
    on_projects = (
        _compile,
        _merge_findings,
        _diff,
        _plan,
        _report,
        _explain,
        _preflight,
        _bump,
        _init,
        _import,
        _inventory,
    )
    every = (*on_projects, *recipe_commands.ALL, *live_commands.ALL, *reference_commands.ALL)
    return {add.__name__.strip("_").replace("_", "-"): add for add in every}


def _compile(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "compile",
        "compile policies/ and inventory/ into output/",
        "kae compile",
        "kae compile --check > output.patch    show what a compile would change, and write nothing",
        "kae compile --check --format github   annotate a pull request",
        "kae compile --shard 0/4 --findings shard-0.json    on the first of four machines",
    )
    options.sources(command, by_shard=True)
    options.strict(command)
    options.answer(command)
    options.finding_format(command)
    options.quiet(command)
    options.jobs(command)
    command.add_argument(
        "--findings", dest="findings_file", metavar="FILE", help="write what `kae merge-findings` needs of the shard"
    )
    command.add_argument("--check", action="store_true", help="write nothing; fail where output/ differs")
    _accept(command, "let a removal pass, such as removes-drivers:east/tls; repeatable")
    command.add_argument("--output-dir", metavar="DIR", help="write to DIR instead of output/")
    command.add_argument("--no-cache", action="store_true", help="neither read nor write .kae_cache/")
    command.renamed = {**command.renamed, "--output": options.OUTPUT_FOLDER, "--dry-run": "Write --check."}


def _accept(command: parsing.Parser, text: str) -> None:
    command.add_argument(
        "--accept", action="append", default=[], type=_scope, metavar="CODE[:CLUSTER[/POLICY]]", help=text
    )


def _scope(text: str) -> str:
    """Return the scope of what a person accepts: CODE[:CLUSTER[/POLICY]]."""
    code = text.partition(":")[0]
    if code not in diagnostics.ACCEPTABLE:
        near = wording.nearest(code, diagnostics.ACCEPTABLE)
        hint = f"did you mean '{near}'?" if near else f"it is one of {wording.listed(diagnostics.ACCEPTABLE)}"
        raise argparse.ArgumentTypeError(f"'{code}' is no code that can be accepted; {hint}")
    return text


def _merge_findings(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "merge-findings",
        "give the verdict on a fleet that several machines have compiled by shards",
        "kae merge-findings shard-*.json",
        "kae merge-findings --format github shard-0.json shard-1.json",
    )
    command.add_argument(
        "files", nargs="+", metavar="FILE", help="what `kae compile --shard I/N --findings` has written"
    )
    options.strict(command)
    options.answer(command)
    options.finding_format(command)
    options.quiet(command)


def _diff(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "diff",
        "show what a change of the documents does to the nodes, before it is applied",
        "kae diff                         the working tree against the last commit",
        "kae diff main --to HEAD          a branch against main",
        "kae diff HEAD~1 -o json",
        "kae diff main --to HEAD -o markdown         the comment of a pull request",
        "kae diff main --to HEAD --format github     annotations at the lines that cause the effects",
        "kae diff main --fail-on driver-removed --fail-on frozen-touched",
    )
    command.add_argument("revision", nargs="?", default="HEAD", metavar="REV", help="before the change (default: HEAD)")
    command.add_argument("--to", metavar="REV", help="after the change; the working tree by default")
    command.add_argument("--cluster", action="append", default=[], metavar="NAME", help="only this cluster; repeatable")
    command.add_argument("--no-cache", action="store_true", help="neither read nor write .kae_cache/")
    options.strict(command)
    command.add_argument("--exit-code", action="store_true", help="exit with 1 where something differs, as git does")
    command.add_argument(
        "--fail-on",
        action="append",
        default=[],
        choices=diagnostics.RISKS,
        metavar="CODE",
        help="a risk that is an error, such as frozen-touched; repeatable",
    )
    _accept(command, "let a risk pass, such as large-step:east/tls; repeatable")
    options.answer(command, "markdown")
    options.finding_format(command)
    options.quiet(command)


def _plan(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "plan",
        "show the state of the fleet: the policy, the images and the reasons for each node",
        "kae plan | less",
        "kae plan --problems",
        "kae plan --policy tls -l 'zone in (a, b),!gpu'",
        "kae plan --cluster east -o json",
        "kae plan -o ndjson    a line for each node, for programs that read large fleets",
    )
    options.sources(command, by_shard=True)
    command.add_argument(
        "--policy", action="append", default=[], metavar="NAME", help="only the nodes of this policy; repeatable"
    )
    options.recipe(command, "only the plan of this recipe, of which kae is the one of KAEPolicies; repeatable")
    command.add_argument(
        "--node", action="append", default=[], metavar="NODE", help="only this node, or CLUSTER/NODE; repeatable"
    )
    command.add_argument(
        "-l",
        "--selector",
        type=arguments.selector,
        default="",
        metavar="SELECTOR",
        help="only nodes with these labels, in kubectl's syntax: a=b, a!=b, 'a in (b, c)', a, '!a'",
    )
    command.add_argument("--problems", action="store_true", help="only nodes without what their policy promises")
    options.strict(command)
    options.answer(command, "ndjson")
    options.jobs(command)
    options.quiet(command)


def _report(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "report",
        "write the state of the fleet as a page: one HTML file that opens from disk",
        "kae report --html fleet.html",
        "kae report --html change.html HEAD    with what the edits since HEAD do to each node",
        "kae report --html east.html --cluster east",
    )
    command.add_argument(
        "revision",
        nargs="?",
        metavar="REV",
        help="show the change since this commit, branch or tag of git too",
    )
    command.add_argument("--html", required=True, dest="target", metavar="FILE", help="write the page to FILE")
    _accept(command, "show a risk of the change as accepted, such as large-step:east/tls; repeatable")
    options.sources(command)
    options.strict(command)
    options.quiet(command)


def _explain(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "explain",
        "show why a node gets, or does not get, each component",
        "kae explain east/kp920-rack1-03",
        "kae explain kp920-rack1-03 -o json    the cluster is not needed where one node has the name",
    )
    command.add_argument("node", metavar="CLUSTER/NODE", help="the node; CLUSTER/ may go where one node has the name")
    options.recipe(command, "only what this recipe brings to the node; repeatable")
    options.sources(command)
    options.strict(command)
    options.answer(command)
    options.quiet(command)


def _preflight(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "preflight",
        "show which policy would serve a kernel that no node runs yet, or whether an image holds its driver",
        "kae preflight --kernel 5.10.0-216.0.0.115.oe2203sp4.aarch64",
        "kae preflight --kernel 6.6.0-28.0.0.34.oe2403.aarch64 --os 'openEuler 24.03 (LTS)' --cluster east",
        "skopeo inspect docker://IMAGE | kae preflight --image IMAGE",
        "kae preflight --image driver.tar    as `podman save --format oci-archive -o driver.tar IMAGE` writes it",
    )
    subject = command.add_mutually_exclusive_group(required=True)
    subject.add_argument(
        "--kernel", type=arguments.kernel, metavar="VERSION", help="the kernel, as `uname -r` prints it"
    )
    subject.add_argument(
        "--image",
        type=arguments.utf8,
        metavar="IMAGE|FILE",
        help="an image with a driver, inspected on standard input, or an archive of it: what do its labels lack?",
    )
    command.add_argument("--os", metavar="NAME", help="the operating system, as a Node's osImage says it")
    options.sources(command)
    options.answer(command)
    options.quiet(command)


def _bump(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "bump",
        "change one version in a policy's file, and nothing else",
        "kae bump tls --version 2.3.0",
        "kae bump tls --wave canary --version 2.3.0",
        "kae bump tls --device-plugin --version 1.5.0",
        "kae bump desk --image modules --wave canary --version '8.2-${KERNEL_FULL_VERSION}'",
    )
    command.add_argument("policy", metavar="POLICY", help="the policy's name")
    part = command.add_mutually_exclusive_group()
    part.add_argument("--wave", metavar="NAME", help="the version of this wave instead of the driver's")
    part.add_argument("--mapping", metavar="NAME", help="the version of this kernel mapping")
    part.add_argument("--frozen", metavar="NAME", help="the version of this frozen group")
    part.add_argument("--device-plugin", action="store_true", help="the version of the device plugin")
    command.add_argument("--image", metavar="NAME", help="the image of the recipe, which a DevicePolicy needs")
    command.add_argument("--version", required=True, type=arguments.utf8, metavar="V", help="the new version")
    command.add_argument("--file", metavar="FILE", help="the file, where several hold a policy of this name")
    options.answer(command)


def _init(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "init",
        "make a new GitOps repository that compiles",
        "kae init",
        "kae init fleet --cluster east --registry registry.example.com/team",
        "kae init fleet --wheel dist/kae_compiler-VERSION-py3-none-any.whl",
        "kae init --wheel https://example.com/kae_compiler-VERSION-py3-none-any.whl    also where a repository is",
        "kae init fleet --shards 8",
    )
    command.add_argument("path", nargs="?", default=".", metavar="DIR", help="where; the current folder by default")
    command.add_argument(
        "--cluster",
        default="default",
        type=arguments.cluster,
        metavar="NAME",
        help="the first cluster (default: default)",
    )
    command.add_argument("--registry", metavar="REGISTRY", help="where the images of the first policy are")
    command.add_argument(
        "--wheel",
        metavar="URL|PATH",
        help="the wheel of kae that the CI jobs install, pinned by its sha256; a file is copied into the repository",
    )
    command.add_argument(
        "--shards",
        type=arguments.shard_count,
        metavar="N",
        help="have N CI jobs share out the clusters, each on a machine",
    )


def _import(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "import",
        "turn the settings of another operator (KAE's, KMM's, Onload's, SRO's) into documents",
        "kae import values.yaml --cluster east -o policies/east.yaml",
        "kubectl get kaepolicy kae -o yaml | kae import --cluster east -o policies/east.yaml",
        "kae import module.yaml --cluster east -o policies/kmod.yaml    a Module of KMM: also recipes/NAME/recipe.yaml",
    )
    command.add_argument(
        "file",
        nargs="?",
        default="-",
        help="values of a chart, a KAEPolicy, a Module of KMM, an Onload or a SpecialResource; - reads standard input",
    )
    command.add_argument(
        "--cluster",
        default="default",
        type=arguments.cluster,
        metavar="NAME",
        help="the cluster's name (default: default)",
    )
    command.add_argument(
        "--policy", type=arguments.policy, metavar="NAME", help="the policy's name (default: the live object's, or kae)"
    )
    command.add_argument(
        "--recipe", type=arguments.policy, metavar="NAME", help="the recipe's name (default: that of the object)"
    )
    command.add_argument(
        "--namespace",
        type=arguments.namespace,
        metavar="NAME",
        help="the namespace of all objects (default: kae-operator)",
    )
    options.whole_file(command)


def _inventory(commands: options.Commands) -> None:
    command = options.command(
        commands,
        "inventory",
        "take the inventory of a live cluster, or of `kubectl get nodes -o json` on standard input",
        "kubectl get nodes -o json | kae inventory --cluster east -o inventory/east.json",
        "kae inventory --cluster east --context east-admin -o inventory/east.json",
    )
    command.add_argument("--cluster", required=True, type=arguments.cluster, metavar="NAME", help="the cluster's name")
    options.whole_file(command)
    options.access(command)
