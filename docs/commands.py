"""The text of docs/commands.md: every command with its options, from the parsers of the arguments."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from compiler import cli
from docs import markdown

PAGE = Path(__file__).with_name("commands.md")

_HEAD = """\
# Commands

Every command of `kae`, with its options. `make docs` generates this page from the parsers of the arguments; `kae help
COMMAND` shows the same at a terminal. No command changes a cluster but `kae rehearse`, which takes an empty one.

"""

_EXITS = {
    "0": "fine, warnings included",
    "1": "the documents are wrong; with `--strict`, any warning; an edit (`bump`, `wave`, `promote`, `freeze`, `thaw`, "
    "`retire`) that is refused, or an unknown name in one; "
    "`kae diff --exit-code`: something differs; `kae inventory`: no list of nodes on standard input; `kae import`: an "
    "empty standard input",
    "2": "the command line is wrong",
    "3": "an I/O error (file, disk, network), an unknown name (edits: 1), or a file that `kae init`, `kae import` "
    "or `kae support-bundle` would overwrite",
    "4": "the documents are fine, but output/ (`compile --check`), what a rehearsal saw (`kae rehearse`) or the "
    "cluster (`kae status`) differs, or an edit would write (`--check`)",
    "130": "Ctrl-C",
    "141": "the program that reads standard output ended first, such as `head`",
}

_ANSWERS = """\

## Answers for programs

`-o` is the shape of a command's answer, `--format` that of the findings of compile and diff: annotations of a pull
request (`github`), or code scanning (`sarif`). Standard output holds one document at most:

| called with | standard output | standard error |
|---|---|---|
| nothing | the answer | the findings |
| `-o json` or `-o yaml` | one object with the answer and the findings | the findings |
| `--format github` | the findings, then the answer | |
| `--format json` or `--format sarif` | the findings | the answer |
| `-o json --format json` | one object with the answer and the findings | |

`-o json` prints one object with `version` (1), `diagnostics` (each with `code`, `severity`, `message`, `file`,
`line`, `column`, `notes` and `hint`) and the fields of the command. A field without a value is null. If the documents
are wrong, `clusters` is empty. If the call fails, the object has `error` with `message` and `hint` in their place.

"""

FIELDS = {
    "compile": (
        "`clusters`: `name`, `state`; `changes`, for each cluster whose objects change: `cluster`, the objects "
        "`created`, `replaced` and `deleted` with `kind`, `namespace`, `name`, the DaemonSets whose pods restart "
        "(`restarts`, with `nodes`), and all `nodes` that are touched; `foreign`: files that are not the compiler's; "
        "`extra`: `folder`, `files`"
    ),
    "plan": (
        "`clusters`: `name`; `nodes` with `name`, `policy`, `pool`, `driver`, `devicePlugin`, `loaded`, `resources`, "
        "`reasons`; `loaded` is null where no label tells, and else has `version` and `state`, which may be empty, "
        "`wanted` (empty where the driver is to go, null where the plan has none) and `differs`; `pools` with `policy`,"
        " `pool`, `driver`, `state`, `nodes`; `images` to build with `kernel`, `image`, `policy`, `pools`, `nodes`. "
        "Only with DevicePolicies: `stacks`, for each recipe `recipe`, `privileges` as in privileges.txt, and `nodes`, "
        "`pools` and `images` of its plan, which have `images`, by their names in the recipe, in the place of `driver` "
        "and `devicePlugin`; a resource whose amount only the node knows is null. Lines of `ndjson` have `recipe` there"
    ),
    "diff": (
        "`from`, `to` with `name`, `commit`; `intent`: `kind`, `name`, `oldName`, `action`, `fields` with `path`, "
        "`old`, `new`; `clusters`: `name`, `new`, `gone`, `prunes` (null without an engine); `effects`: `cluster`, "
        "`recipe` (but for KAE), `nodes`, `before` and `after` (`policy`, `pool`, `group`, `groupKind`, `driver`, "
        "`version`, `state`, `devicePlugin`, `programs`, `resources`), `driverPod`, `devicePluginPod` and `programPods`"
        " (created, replaced, deleted), `driver` (installs, swaps, may-swap, reloads, functions, removes, leaves, "
        "restarts, cleared), `reasons`, `drain` with `evicts`, `timeoutSeconds`, `podsPerNode`, `hostsAtATime` and "
        "`rolls` (pods are replaced in turn), `kernels` of nodes that run another one (`before`, `after`), `mayGain`, "
        "`mayLose`, `standing` (DaemonSets that stay, as nothing prunes them), `loaded` (labels show the driver "
        "already), `cause`; `pods`: `cluster`, the workload, and the nodes of each `fate`, or the `replicas` of a "
        "Deployment; `objects`: `cluster`, `component`, `change` (added, changed, pruned), `kind`, `namespace`, `name`,"
        " `path` of its file, `keptBy` (the engine that leaves a pruned one in the cluster), `fields` with `path`, "
        "`old`, `new`; `privileges` that are `new`, `gone`, or have `gained` and `lost` some; `risks` with `code`, "
        "`cluster`, `policy`, `scope`, `accepted`, `message`, `notes`, `hint`; `doesNotCompile` with `side`, `cluster`,"
        " `errors`, and `compilesTo` of the other revision; places in documents have `file`, `line`, `column`"
    ),
    "simulate": (
        "`from`, `to`, `runs`, `seed`, `failureRate`; `taken`: sentences on what it rests on, defaults said to be such;"
        " `notKnown`; `clusters`: `name`, `hosts` whose driver changes, other `pods`; `half` and `end` with "
        "`p50Seconds` and `p95Seconds` (null for never); `fewestDone`; `unknownHosts`, of which the devices or the pods"
        " that hold them are not known; `loadedHosts`, left out as labels show the driver; `hostsAwayIfIdle`; "
        "`hostsAway`, `devicesAway` (sharing counts), `evictions` and `evictionsAtOnce` with `p50`, `p95` and `most`; "
        "`pacedBy` with `setting`, `name`, `number`; `runsThatHalt`; `halts` with `cause` (`budget`, `budgets`, "
        "`waits`, `tired`, `failed`, `leases`, `unavailable`), `name`, `runs`, `hosts`, `text`, `way`; `curve` of the "
        "run in the middle: pairs of seconds and hosts that are done"
    ),
    "explain": (
        "`cluster`, `node`, `policy`; `policies` with `name`, `governs` and the labels that are `failing`; `pool` with "
        "`name`, `label`, `reasons`; `driver` and `devicePlugin` with `image`, `reason`; `loaded` as in plan; "
        "`resources`, `reasons`. Only with DevicePolicies: `stacks`, for each recipe `recipe`, `images`, and these "
        "fields of its plan"
    ),
    "preflight": (
        "`kernel`, `os`, `served`, `remarks`; `clusters` with `name` and `policies`, each with `policy`, `served`, "
        "`mapping`, `reason` and `pools` (`pool`, `image`, `source`, `state`). Only with DevicePolicies: `stacks`, for "
        "each recipe `recipe` and its `policies`, whose `pools` have `images` in the place of `image`. With `--image`: "
        "`image`, `driver`, `sources`, `kernels`; `uses` with `cluster`, `policy`, `pool`, `source`, and `nodes` by "
        "kernel. With `--kernels`: `kernels`, `unserved`, `remarks`; `images` with `kernel`, `cluster`, `recipe`, "
        "`policy`, `pool`, `image`, `missing`, `reason`; `matrix`: the missing ones as `include`, each with `image`, "
        "`kernels`, `policies`"
    ),
    "rehearse": (
        "`from`, `to`, `equal`; `clusters` with `name`, `equal`, `nodes`, `pods` (`kind`, `namespace`, `name`, `fate`, "
        "`equal`, and the nodes `foretold` and `rehearsed`; of a Deployment `all`), `refused`, `halted`, `leftOut`"
    ),
    "report": "the numbers, tables and problems of the page; with a revision, `change` as in `kae diff -o json`",
    "bump": "`file`, `line`, `path`, `old` (null if there was no version), `new`",
    "wave add, wave remove, promote, freeze, thaw, retire": (
        "`policy`, `file`, `written`, `next`, and the answer of diff as `diff`; of each its own: `wave`, `keeping` (the"
        " groups with other values) and `untried` (clusters where the wave has no node with a driver), `frozen` and "
        "`nodes`, `step` (absent or deleted)"
    ),
    "status": (
        "`cluster`, null for wrong documents: `name`, `server`, `asPlanned`; `output` (fine, old, incomplete, edited); "
        "`nodes`: `count`, `notReady` (`name`, `reason`, `since`), `notInInventory`, `onlyInInventory`; `daemonSets`: "
        "`namespace`, `name`, `found`, `observed`, the numbers `planned`, `pods`, `ready` and `current`, `heldUpBy`, "
        "`problems` with `kind` (missing, surplus, not-ready, old, image), `node`, `pod`, `reason`, `since`, `image`, "
        "`plannedImage`; `loaded`, nodes with another driver than planned: `recipe`, `version`, `state`, `wanted`, "
        "`nodes`; `devices` of nodes with DRA: `node`, `resource`, `planned` (null: only the node knows), `published`, "
        "`unhealthy`; `deployments`: `namespace`, `name`, `found`, `replicas`, `available`, `reason`; `leases`: `name`,"
        " `holder`, `heldSeconds`, `renewedSecondsAgo`, `expired`, `swapSince`; `objects`: `state` (missing, changed, "
        "extra, kept, ending), `apiVersion`, `kind`, `namespace`, `name`, `file`, and `changes` with `path`, `wanted`, "
        "`live`; `skews`, programs of another release: `name`, `image`, `release` (empty for a digest)"
    ),
}
"""The fields of each answer, which the code states as keys alone."""


def text() -> str:
    """Return the text of the page."""
    top = cli.parser()
    rows = [(f"[`kae {name}`](#kae-{name})", _sentence(each)) for name, each in top.commands().items()]
    parts = [
        markdown.table(("command", "does"), rows),
        "\nOptions of every command:\n\n",
        _options(top),
        *(_command(("kae", name), each) for name, each in top.commands().items()),
        "\n## Exit codes\n\n",
        markdown.table(("code", "meaning"), _EXITS.items()),
        _ANSWERS,
        markdown.table(("command", "fields"), FIELDS.items()),
    ]
    return _HEAD + "".join(parts)


def _sentence(parser: cli.Parser) -> str:
    return str(parser.description).rstrip(".")


def _command(words: tuple[str, ...], parser: cli.Parser) -> str:
    """Return the section of a command, and those of its verbs."""
    parser.declared()
    lines = [line.strip() for line in (parser.epilog or "").splitlines()[1:]]
    examples = "\n".join(("```text", *lines, "```"))
    said = _sentence(parser)
    title = f"\n{'#' * len(words)} {' '.join(words)}\n\n{said[0].upper()}{said[1:]}.\n\n"
    own = "" if parser.commands() else _options(parser) + "\n"
    verbs = (_command((*words, name), each) for name, each in parser.commands().items())
    return f"{title}{own}{examples}\n{''.join(verbs)}"


def _options(parser: cli.Parser) -> str:
    rows = list(_rows(parser.declared()))
    return markdown.table(("option", "meaning"), rows)


def _rows(parser: cli.Parser) -> Iterator[tuple[str, str]]:
    # Those of every command are told once, at the top.
    hidden = {"help"} if parser.prog == "kae" else {"help", "directory", "color"}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.dest in hidden:
            continue
        name = ", ".join(action.option_strings)
        value = "" if action.nargs == 0 else _value(action)
        required = "; required" if name and action.required else ""
        meaning = str(action.help or "prints the version").replace("%(default)s", str(action.default))
        yield f"`{f'{name} {value}'.strip()}`", f"{meaning}{required}"


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
