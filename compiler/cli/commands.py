"""The commands of `kae`: the sentence on each, and its options, in the order of the help.

`run` of its module in compiler/commands/ runs it. The options are apart from it, as `--help` and the completion of a
shell ask for them alone: what runs takes ten times as long to import.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

from compiler import cli, diagnostics, names
from compiler.cli import options

Declare = Callable[[cli.Parser], None]
"""Adds the options of a command to its parser."""


class Command(NamedTuple):
    """A command: its sentence, and what declares its options."""

    text: str
    declare: Declare


COMMANDS: dict[str, Command] = {}
"""By name, in the order of the help."""

_MOST_SHARDS = 200
"""The jobs in a matrix of GitLab, which has at most 200; GitHub has 256.

https://docs.gitlab.com/ci/yaml/#parallelmatrix
https://docs.github.com/actions/reference/limits
"""

_VERBS_ELSEWHERE = {
    **dict.fromkeys(("validate", "verify", "lint"), "`kae recipe check` does that."),
    **dict.fromkeys(("describe", "get"), "`kae recipe show` does that."),
    **dict.fromkeys(("create", "init"), "`kae recipe new` does that, and `kae recipe add` for one that kae ships."),
    **dict.fromkeys(
        ("rm", "delete", "remove"), "Set driver.state: Absent in its policies, wait, delete them, and then its folder."
    ),
}
"""The hint for each verb of other tools that people try."""


def _command(text: str) -> Callable[[Declare], Declare]:
    """Make a command, with this sentence, of the function that declares its options."""

    def made(declare: Declare) -> Declare:
        COMMANDS[declare.__name__[1:].replace("_", "-")] = Command(text, declare)
        return declare

    return made


@_command("compile policies/ and inventory/ into output/")
def _compile(command: cli.Parser) -> None:
    command.examples(
        "kae compile",
        "kae compile --check > output.patch    show what a compile would change, and write nothing",
        "kae compile --check --format github   annotate a pull request",
        "kae compile --shard 0/4 --findings shard-0.json    on the first of four machines",
    )
    command.set_defaults(writes=True)
    options.sources(command, by_shard=True)
    options.verdict(command, has_formats=True)
    options.jobs(command)
    text = "write what `kae merge-findings` needs of the shard"
    command.add_argument("--findings", dest="findings_file", metavar="FILE", help=text)
    command.add_argument("--check", action="store_true", help="write nothing; fail where output/ differs")
    options.accept(command, "let a removal pass, such as removes-drivers:east/tls")
    options.output_folder(command, "write to DIR instead of output/")
    command.add_argument("--no-cache", action="store_true", help="compile anew, whatever .kae_cache/ remembers")
    command.renamed = {**command.renamed, "--dry-run": "Write --check."}


@_command("give the verdict on a fleet that several machines have compiled by shards")
def _merge_findings(command: cli.Parser) -> None:
    command.examples(
        "kae merge-findings shard-*.json",
        "kae merge-findings --format github shard-0.json shard-1.json",
    )
    text = "what `kae compile --shard I/N --findings FILE` has written"
    command.add_argument("files", nargs="+", metavar="FILE", help=text)
    options.verdict(command, has_formats=True)


@_command("show what a change of the documents does to the nodes, before it is applied")
def _diff(command: cli.Parser) -> None:
    command.examples(
        "kae diff                         the working tree against the last commit",
        "kae diff main --to HEAD          a branch against main",
        "kae diff HEAD~1 -o json",
        "kae diff main --to HEAD -o markdown         the comment of a pull request",
        "kae diff main --to HEAD --format github     annotations at the lines that cause the effects",
        "kae diff main --fail-on driver-removed --fail-on frozen-touched",
    )
    _change(command)
    command.add_argument("--no-cache", action="store_true", help="neither read nor write .kae_cache/")
    options.strict(command)
    command.add_argument("--exit-code", action="store_true", help="exit with 1 where something differs, as git does")
    text = "a risk that is an error, such as frozen-touched"
    options.repeatable(command, "--fail-on", "CODE", text, choices=diagnostics.RISKS)
    options.accept(command, "let a risk pass, such as large-step:east/tls")
    options.answer(command, "markdown")
    options.finding_format(command)
    options.quiet(command)


@_command("forecast the rollout that a change starts: how long it takes, how many pods it evicts, where it halts")
def _simulate(command: cli.Parser) -> None:
    command.examples(
        "kae simulate                     the edits since the last commit",
        "kae simulate main --to HEAD -o markdown",
        "kae simulate --cluster east --pods pods.json    of `kubectl get pods,pdb --all-namespaces -o json`",
        "kae simulate --metrics metrics.txt --failure-rate 0.01 --runs 50",
    )
    _change(command)
    text = "what installers have measured: the text of /metrics or of Prometheus' /federate, or JSON of its API"
    command.add_argument("--metrics", metavar="FILE", help=text)
    text = "the pods and disruption budgets of the cluster, as kubectl prints them in JSON"
    command.add_argument("--pods", metavar="FILE", help=text)
    text = "the share of hosts whose change fails, from 0 to 1 (default: as counted in --metrics, or none)"
    command.add_argument("--failure-rate", type=options.share, metavar="SHARE", help=text)
    text = "how often to simulate (default: 20, and fewer, at least 3, for more than 10,000 hosts)"
    command.add_argument("--runs", type=options.number(1, 1000, "runs"), metavar="N", help=text)
    text = "what chance begins with (default: 0); the same seed gives the same answer"
    command.add_argument("--seed", type=options.number(0, 2**32 - 1, "a seed"), default=0, metavar="N", help=text)
    options.answer(command, "markdown")
    options.quiet(command)


@_command("play a change on a real control plane with hollow nodes, and compare its pods with what kae diff says")
def _rehearse(command: cli.Parser) -> None:
    command.examples(
        "kae rehearse --programs ~/kubernetes/server/bin    the edits since the last commit",
        "kae rehearse main --to HEAD --cluster east",
        "kae rehearse --kubeconfig empty.yaml -o json       on a cluster without nodes and pods",
    )
    _change(command)
    text = "the folder of etcd, kube-apiserver, kube-controller-manager and kube-scheduler (default: those on PATH)"
    command.add_argument("--programs", metavar="DIR", help=text)
    text = "write to the empty cluster that FILE leads to, instead of one that the command starts"
    options.live(command, text)
    options.answer(command)
    options.quiet(command)


@_command("show the state of the fleet: the policy, the images and the reasons for each node")
def _plan(command: cli.Parser) -> None:
    command.examples(
        "kae plan | less",
        "kae plan --problems",
        "kae plan --policy tls -l 'zone in (a, b),!gpu'",
        "kae plan --cluster east -o json",
        "kae plan -o ndjson    a line for each node, for programs that read large fleets",
    )
    options.sources(command, by_shard=True)
    options.repeatable(command, "--policy", "NAME", "only the nodes of this policy")
    text = "only the plan of this recipe, of which kae is the one of KAEPolicies"
    options.repeatable(command, "--recipe", "NAME", text, dest="recipes")
    options.repeatable(command, "--node", "NODE", "only this node, or CLUSTER/NODE")
    text = "only nodes with these labels, in kubectl's syntax: a=b, a!=b, 'a in (b, c)', a, '!a'"
    command.add_argument("-l", "--selector", type=_labels, default="", metavar="SELECTOR", help=text)
    command.add_argument("--problems", action="store_true", help="only nodes without what their policy promises")
    text = "only nodes that have another driver loaded than planned, as their labels tell"
    command.add_argument("--differing", action="store_true", help=text)
    options.strict(command)
    options.answer(command, "ndjson")
    options.jobs(command)
    options.quiet(command)


@_command("summarise the state of the fleet, or write it as a page: one HTML file that opens from disk")
def _report(command: cli.Parser) -> None:
    command.examples(
        "kae report",
        "kae report -o json",
        "kae report --html fleet.html",
        "kae report --html change.html HEAD    with what the edits since HEAD do to each node",
        "kae report --html east.html --cluster east",
    )
    text = "show the change since this commit, branch or tag of git too"
    command.add_argument("revision", nargs="?", metavar="REV", help=text)
    command.add_argument("--html", dest="target", metavar="FILE", help="write the page to FILE, instead of a summary")
    options.accept(command, "show a risk of the change as accepted, such as large-step:east/tls")
    options.sources(command)
    options.verdict(command)


@_command("show why a node gets, or does not get, each component")
def _explain(command: cli.Parser) -> None:
    command.examples(
        "kae explain east/kp920-rack1-03",
        "kae explain kp920-rack1-03 -o json    the cluster is not needed where one node has the name",
    )
    command.add_argument("node", metavar="CLUSTER/NODE", help="the node; CLUSTER/ may go where one node has the name")
    options.repeatable(command, "--recipe", "NAME", "only what this recipe brings to the node", dest="recipes")
    options.sources(command)
    options.verdict(command)


@_command("show which policy would serve a kernel that no node runs yet, or whether an image holds its driver")
def _preflight(command: cli.Parser) -> None:
    command.examples(
        "kae preflight --kernel 5.10.0-216.0.0.115.oe2203sp4.aarch64",
        "kae preflight --kernel 6.6.0-28.0.0.34.oe2403.aarch64 --os 'openEuler 24.03 (LTS)' --cluster east",
        "kae preflight --kernels kernels.txt -o json | jq -c .matrix    what to build, as a matrix of jobs",
        "skopeo inspect docker://IMAGE | kae preflight --image IMAGE",
        "kae preflight --image driver.tar    as `podman save --format oci-archive -o driver.tar IMAGE` writes it",
    )
    subject = command.add_mutually_exclusive_group(required=True)
    form = "the output of `uname -r`"
    kernel = options.matching("a kernel's full version", names.KERNEL_PATTERN, names.KERNEL_LENGTH, form)
    subject.add_argument("--kernel", type=kernel, metavar="VERSION", help="the kernel, as `uname -r` prints it")
    text = (
        "kernels to come, one a line; - is standard input: which image has each policy and pool, and what is to build?"
    )
    subject.add_argument("--kernels", type=options.utf8, metavar="FILE", help=text)
    text = "an image with a driver, inspected on standard input, or an archive of it: what do its labels lack?"
    subject.add_argument("--image", type=options.utf8, metavar="IMAGE|FILE", help=text)
    command.add_argument("--os", metavar="NAME", help="the operating system, as a Node's osImage says it")
    options.sources(command)
    options.answer(command)
    options.quiet(command)


@_command("change one version in a policy's file, and nothing else")
def _bump(command: cli.Parser) -> None:
    command.examples(
        "kae bump tls --version 2.3.0",
        "kae bump tls --wave canary --version 2.3.0",
        "kae bump tls --device-plugin --version 1.5.0",
        "kae bump tls --version 2.3.0 --check    end with 4 where the policy has another version",
        "kae bump desk --image modules --wave canary --version '8.2-${KERNEL_FULL_VERSION}'",
    )
    command.set_defaults(writes=True)
    command.add_argument("policy", metavar="POLICY", help="the policy's name")
    part = command.add_mutually_exclusive_group()
    part.add_argument("--wave", metavar="NAME", help="the version of this wave instead of the driver's")
    part.add_argument("--mapping", metavar="NAME", help="the version of this kernel mapping")
    part.add_argument("--frozen", metavar="NAME", help="the version of this frozen group")
    part.add_argument("--device-plugin", action="store_true", help="the version of the device plugin")
    command.add_argument("--image", metavar="NAME", help="the image of the recipe, which a DevicePolicy needs")
    command.add_argument("--version", required=True, type=options.utf8, metavar="V", help="the new version")
    command.add_argument("--file", metavar="FILE", help="the file, where several hold a policy of this name")
    command.add_argument("--check", action="store_true", help="write nothing; fail where the version is another one")
    options.answer(command)
    options.quiet(command)


@_command("add a wave to a policy's file, nodes that change earlier than the rest, or remove one")
def _wave(command: cli.Parser) -> None:
    command.examples("kae wave add tls canary --percent 5", "kae wave remove tls/canary")
    verbs = command.add_subparsers(title="verbs", metavar="VERB", required=True)
    verb = cli.added(verbs, "add", "add a wave: nodes by percent, name or labels, and the version that they get")
    verb.set_defaults(verb="add")
    verb.examples(
        "kae wave add tls canary --percent 5",
        "kae wave add tls lab --node kp920-rack1-03 --node kp920-rack1-04 --before canary",
        "kae wave add desk canary -l zone=a --cluster east --image modules --version 8.2",
    )
    verb.add_argument("policy", metavar="POLICY", help="the policy's name")
    verb.add_argument("new", metavar="WAVE", help="the wave's name")
    ways = verb.add_mutually_exclusive_group(required=True)
    text = "the share of the policy's nodes that is in this wave or in one before it"
    ways.add_argument("--percent", type=_percent, metavar="N", help=text)
    _members(verb, ways)
    _version(verb, "the version that its nodes get")
    verb.add_argument("--before", metavar="WAVE", help="put it before this wave (default: last)")
    _edits(verb)
    verb = cli.added(verbs, "remove", "remove a wave: its nodes get what the waves behind it or the policy have")
    verb.set_defaults(verb="remove")
    verb.examples("kae wave remove tls/canary", "kae wave remove tls/canary --check")
    verb.add_argument("chosen_wave", type=_of_policy, metavar="POLICY/WAVE", help="the policy's name and the wave's")
    _edits(verb)


@_command("make what a wave has instead the policy's, in its file; the wave stays")
def _promote(command: cli.Parser) -> None:
    command.examples("kae promote tls/canary", "kae promote tls/canary --check")
    command.add_argument("chosen_wave", type=_of_policy, metavar="POLICY/WAVE", help="the policy's name and the wave's")
    _edits(command)


@_command("add a frozen group to a policy's file: nodes that keep what they have")
def _freeze(command: cli.Parser) -> None:
    command.examples(
        "kae freeze tls batch7 --node kp920-w1-02 --node kp920-w1-04",
        "kae freeze tls zone-w1 -l topology.kubernetes.io/zone=w1 --cluster west --version 2.2.0",
    )
    command.add_argument("policy", metavar="POLICY", help="the policy's name")
    command.add_argument("new", metavar="GROUP", help="the group's name")
    _members(command, command.add_mutually_exclusive_group(required=True))
    _version(command, "the version that its nodes get (default: what the last commit has for them)")
    _edits(command)


@_command("remove a frozen group from a policy's file")
def _thaw(command: cli.Parser) -> None:
    command.examples("kae thaw tls batch7")
    command.add_argument("policy", metavar="POLICY", help="the policy's name")
    command.add_argument("frozen", metavar="GROUP", help="the frozen group's name")
    _edits(command)


@_command("end a policy by two commits: the first removes its driver, the second deletes it")
def _retire(command: cli.Parser) -> None:
    command.examples("kae retire tls    twice, with a commit and a removed driver in between")
    command.add_argument("policy", metavar="POLICY", help="the policy's name")
    _edits(command)


def _change(command: cli.Parser) -> None:
    """Add the arguments that name a change: two revisions, and the clusters to look at."""
    command.add_argument("revision", nargs="?", default="HEAD", metavar="REV", help="before the change (default: HEAD)")
    command.add_argument("--to", metavar="REV", help="after the change; the working tree by default")
    options.repeatable(command, "--cluster", "NAME", "only this cluster")


def _members(command: cli.Parser, ways: options.Container) -> None:
    """Add the options that choose nodes of a wave or of a frozen group."""
    options.repeatable(ways, "--node", "NODE", "this node, by its name", dest="nodes")
    text = "nodes of the inventory with these labels, in kubectl's syntax"
    ways.add_argument("-l", "--selector", type=_labels, metavar="SELECTOR", help=text)
    options.repeatable(
        command, "--cluster", "NAME", "only in this cluster (default: all, or those with the --node)", dest="clusters"
    )


def _version(command: cli.Parser, text: str) -> None:
    """Add the options of a version that some nodes get instead."""
    command.add_argument("--version", type=options.utf8, metavar="V", help=text)
    command.add_argument("--image", metavar="NAME", help="the image of the recipe, which a DevicePolicy needs")


def _edits(command: cli.Parser) -> None:
    """Add the options of a command that edits a policy's file."""
    command.set_defaults(writes=True)
    command.add_argument("--file", metavar="FILE", help="the file, where several hold a policy of this name")
    command.add_argument(
        "--check", action="store_true", help="write nothing; say what the edit would do, and end with 4"
    )
    options.accept(command, "let a risk pass, such as large-step:east/tls")
    options.answer(command)
    options.quiet(command)
    command.renamed = {**command.renamed, "--dry-run": "Write --check.", "--nodes": "Write --node, for each."}


@_command("make a new GitOps repository that compiles")
def _init(command: cli.Parser) -> None:
    command.examples(
        "kae init",
        "kae init fleet --cluster east --registry registry.example.com/team",
        "kae init fleet --wheel dist/kae_compiler-VERSION-py3-none-any.whl",
        "kae init --wheel https://example.com/kae_compiler-VERSION-py3-none-any.whl    also where a repository is",
        "kae init fleet --shards 8",
    )
    command.set_defaults(in_project=False)
    command.add_argument("path", nargs="?", default=".", metavar="DIR", help="where; the current folder by default")
    options.named_cluster(command, "the first cluster")
    command.add_argument("--registry", metavar="REGISTRY", help="where the images of the first policy are")
    text = "the wheel of kae that the CI jobs install, pinned by its sha256; a file is copied into the repository"
    command.add_argument("--wheel", metavar="URL|PATH", help=text)
    text = "have N CI jobs share out the clusters, each on a machine"
    command.add_argument("--shards", type=options.number(2, _MOST_SHARDS, "shards"), metavar="N", help=text)
    options.quiet(command)


@_command("turn the settings of another operator (KAE's, KMM's, Onload's, SRO's, Intel's) into documents")
def _import(command: cli.Parser) -> None:
    command.examples(
        "kae import values.yaml --cluster east --output-file policies/east.yaml",
        "kubectl get kaepolicy kae -o yaml | kae import --cluster east --output-file policies/east.yaml",
        "kae import module.yaml --cluster east --output-file policies/kmod.yaml    also recipes/NAME/recipe.yaml",
    )
    text = (
        "values of a chart, a KAEPolicy, a Module of KMM, an Onload, a SpecialResource or a device plugin of Intel's"
        " operator; - reads standard input"
    )
    command.add_argument("file", nargs="?", default="-", help=text)
    options.named_cluster(command, "the cluster's name")
    form = f"lower-case letters, digits and '-', at most {names.POLICY_LENGTH}, and no '--'"
    policy = options.matching("the name of a policy", names.POLICY_PATTERN, names.POLICY_LENGTH, form)
    text = "the policy's name (default: the live object's, or kae)"
    command.add_argument("--policy", type=policy, metavar="NAME", help=text)
    text = "the recipe's name (default: that of the object)"
    command.add_argument("--recipe", type=policy, metavar="NAME", help=text)
    form = f"lower-case letters, digits and '-', at most {names.LABEL_LENGTH}"
    namespace = options.matching("the name of a namespace", names.LABEL_PATTERN, names.LABEL_LENGTH, form)
    text = "the namespace of all objects (default: kae-operator)"
    command.add_argument("--namespace", type=namespace, metavar="NAME", help=text)
    options.document(command, "yaml")
    options.quiet(command)


@_command("take the inventory of a live cluster, or of `kubectl get nodes -o json` on standard input")
def _inventory(command: cli.Parser) -> None:
    command.examples(
        "kubectl get nodes -o json | kae inventory --cluster east --output-file inventory/east.json",
        "kae inventory --cluster east --context east-admin --output-file inventory/east.json",
    )
    command.add_argument("--cluster", required=True, type=options.cluster, metavar="NAME", help="the cluster's name")
    options.document(command, "json", "yaml")
    options.quiet(command)
    options.live(command)


@_command("show, copy and check recipes: the driver and the devices of any accelerator")
def _recipe(command: cli.Parser) -> None:
    command.examples("kae recipe list", "kae recipe add onload")
    command.elsewhere = _VERBS_ELSEWHERE
    verbs = command.add_subparsers(title="verbs", metavar="VERB", required=True)

    verb = cli.added(verbs, "list", "list the recipes that kae ships, and those of the project")
    verb.examples("kae recipe list")
    verb.set_defaults(verb="list")
    options.verdict(verb)

    text = "show a recipe: its nodes, parameters, images, modules, resources, and what its pods may do"
    verb = cli.added(verbs, "show", text)
    verb.examples("kae recipe show onload", "kae recipe show kae -o yaml")
    verb.set_defaults(verb="show")
    verb.add_argument("shown", metavar="NAME", help="a recipe of the project, one that kae ships, or kae itself")
    options.verdict(verb)

    text = "copy a recipe that kae ships into recipes/, with an example of a policy; overwrite nothing"
    verb = cli.added(verbs, "add", text)
    verb.examples("kae recipe add onload")
    verb.set_defaults(verb="add")
    verb.add_argument("recipe", metavar="NAME", help="a recipe that `kae recipe list` shows as shipped")
    options.quiet(verb)

    _recipe_new(verbs)

    text = "check the project's recipes alone; try each on a made-up node, with every value of its enums and booleans"
    verb = cli.added(verbs, "check", text)
    verb.examples("kae recipe check", "kae recipe check npu --format github")
    verb.set_defaults(verb="check")
    verb.add_argument("recipe", nargs="?", metavar="NAME", help="a recipe of the project; all of them by default")
    options.verdict(verb, has_formats=True)


def _recipe_new(verbs: cli.Commands) -> None:
    text = "write a first recipe by what these options say, and an example of a policy; overwrite nothing"
    verb = cli.added(verbs, "new", text)
    verb.examples(
        "kae recipe new npx --vendor-id abcd --device-id 0001 --module npx --resource example.com/npx",
        "kae recipe new acme --vendor-id abcd --device-id 0001 --program registry.example.com/acme/plugin:1.2.0 "
        "--resource acme.example.com/card --path /dev/acme",
        "kae recipe new own    a skeleton with comments",
    )
    verb.set_defaults(verb="new")
    form = f"lower-case letters, digits and '-', at most {names.RECIPE_LENGTH}, and no '--'"
    recipe = options.matching("the name of a recipe", names.POLICY_PATTERN, names.RECIPE_LENGTH, form)
    verb.add_argument("new", type=recipe, metavar="NAME", help="the recipe's name, and that of its folder")
    text = "the PCI vendor id of the hardware, such as 8086"
    options.once(verb, "--vendor-id", text, type=options.pci_id, metavar="ID", dest="vendor")
    options.repeatable(verb, "--device-id", "ID", "its PCI device id", type=options.pci_id, dest="devices")
    text = "a kernel module that the nodes get, in the order of loading"
    options.repeatable(verb, "--module", "NAME", text, dest="modules")
    text = "the image with the modules; its tag may have ${KERNEL_FULL_VERSION}"
    options.once(verb, "--image", text, metavar="REPOSITORY:TAG", dest="modules_image")
    text = "the image of a vendor's program, such as a device plugin"
    options.once(verb, "--program", text, metavar="IMAGE")
    text = "what pods ask for: kae's device plugin offers it, or the program"
    options.once(verb, "--resource", text, metavar="DOMAIN/NAME")
    text = "what a device of kae's device plugin is: device nodes (default), IOMMU groups, or a number"
    options.once(verb, "--class", text, choices=("char", "vfio", "token"), dest="sort")
    text = "device nodes of the resource, also by a glob, or a folder of the node that the program sees"
    options.repeatable(verb, "--path", "PATH", text, dest="paths")
    options.quiet(verb)


@_command("compare a live cluster with the plan and with output/")
def _status(command: cli.Parser) -> None:
    command.examples(
        "kae status --cluster east",
        "kae status --cluster east --kubeconfig ~/.kube/config --context east-admin -o json",
    )
    options.sources(command)
    options.verdict(command)
    options.live(command)
    options.output_folder(command, "compare with DIR instead of output/")


@_command("collect what a report of a fault needs, without secrets: status, plan, logs, events, what the nodes say")
def _support_bundle(command: cli.Parser) -> None:
    command.examples(
        "kae support-bundle --cluster east --output-file ../east.tar.gz",
        "kae support-bundle --cluster east --node kp920-rack1-03 --output-file ../east.tar.gz",
    )
    options.sources(command)
    options.live(command)
    text = "the archive to make; it may not exist"
    command.add_argument("--output-file", dest="target", required=True, metavar="FILE", help=text)
    command.renamed = {"-o": "Write --output-file FILE."}
    text = "the logs and answers of this node, instead of those of 20 nodes, those not ready first"
    options.repeatable(command, "--node", "NODE", text)


@_command("print a Job for each resource of a cluster, whose pod opens a device and starts a queue")
def _smoke(command: cli.Parser) -> None:
    command.examples(
        "kae smoke --cluster east | kubectl apply -f -",
        "kae smoke --cluster east --node kp920-rack1-03 | kubectl apply -f -",
    )
    options.sources(command)
    options.repeatable(command, "--node", "NODE", "a Job for each resource of this node")


@_command("print a setting of the project, for scripts")
def _config(command: cli.Parser) -> None:
    command.examples(
        "kae config output",
        "kae config output main    as kae.yaml of this branch says",
        "kae config inventories",
    )
    command.add_argument(
        "setting",
        choices=("output", "inventories"),
        help="output: the folder of outputs, refused where it is a link; inventories: a line for each cluster, with "
        "tabs between its name, its file, the branch of its watcher, the path there, and `watcher` where it has one",
    )
    command.add_argument("revision", nargs="?", metavar="REV", help="as kae.yaml of this commit, branch or tag says")
    options.shard(command)


@_command("print the JSON Schemas, or the custom resource definitions")
def _schema(command: cli.Parser) -> None:
    command.examples(
        "kae schema",
        "kae schema kaepolicy > kaepolicy.json",
        "kae schema devicepolicy --recipe onload",
        "kae schema --crd | kubectl apply -f -",
    )
    command.set_defaults(in_project=False)
    command.add_argument("name", nargs="?", default=None, help="one schema, such as kaepolicy; all by default")
    command.add_argument("--recipe", metavar="NAME", help="the schema of this recipe's DevicePolicies")
    command.add_argument("--crd", action="store_true", help="print custom resource definitions, as YAML")
    text = "write the schemas for editors to DIR, by default schemas/, as `kae init` does, and those of recipes/"
    command.add_argument("--write", nargs="?", metavar="DIR", const="schemas", help=text)
    options.quiet(command)


@_command("print a completion script for a shell")
def _completion(command: cli.Parser) -> None:
    command.examples(
        'eval "$(kae completion bash)"                             in ~/.bashrc',
        'eval "$(kae completion zsh)"                              in ~/.zshrc, below compinit',
        "kae completion fish > ~/.config/fish/completions/kae.fish",
    )
    command.set_defaults(in_project=False)
    command.add_argument("shell", choices=("bash", "fish", "zsh"))


@_command("explain a finding: its rule, an example and the fix")
def _rule(command: cli.Parser) -> None:
    command.examples("kae rule policy-overlap", "kae rule    list all of them")
    command.set_defaults(in_project=False)
    command.add_argument("code", nargs="?", metavar="CODE", help="the code in the finding's brackets")
    options.answer(command)


@_command("show the help of a command")
def _help(command: cli.Parser) -> None:
    command.examples("kae help compile")
    command.set_defaults(in_project=False)
    command.add_argument("topic", nargs="?", metavar="COMMAND", help="the command; all of them by default")


def _of_policy(text: str) -> str:
    if not all(text.partition("/")):
        raise argparse.ArgumentTypeError(f"'{text}' names no wave; write POLICY/WAVE, such as tls/canary")
    return text


def _percent(text: str) -> float | int:
    """Return a share of nodes as a document has it."""
    try:
        found = float(text.removesuffix("%"))
    except ValueError:
        found = 0
    if not 0 < found <= 100:
        raise argparse.ArgumentTypeError(f"'{text}' is no share of nodes; use a number up to 100, such as 5")
    return int(found) if found.is_integer() else found


def _labels(text: str) -> str:
    from compiler.fleet import selectors  # noqa: PLC0415 - needed only where labels are given

    try:
        selectors.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}.") from error
    return text
