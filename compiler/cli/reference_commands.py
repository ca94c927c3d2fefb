"""The commands that show what kae itself says: settings, schemas, completions, rules and help."""

from compiler.cli import options


def config(commands: options.Commands) -> None:
    """Add `kae config`."""
    command = options.command(
        commands,
        "config",
        "print a setting of the project, for scripts",
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


def schema(commands: options.Commands) -> None:
    """Add `kae schema`."""
    command = options.command(
        commands,
        "schema",
        "print the JSON Schemas, or the custom resource definitions",
        "kae schema",
        "kae schema kaepolicy > kaepolicy.json",
        "kae schema devicepolicy --recipe onload",
        "kae schema --crd | kubectl apply -f -",
    )
    command.add_argument("name", nargs="?", default=None, help="one schema, such as kaepolicy; all by default")
    command.add_argument("--recipe", metavar="NAME", help="the schema of this recipe's DevicePolicies")
    command.add_argument("--crd", action="store_true", help="print custom resource definitions, as YAML")
    command.add_argument(
        "--write",
        nargs="?",
        metavar="DIR",
        const="schemas",
        help="write the schemas for editors to DIR, by default schemas/, as `kae init` does, and those of recipes/",
    )


def completion(commands: options.Commands) -> None:
    """Add `kae completion`."""
    command = options.command(
        commands,
        "completion",
        "print a completion script for a shell",
        'eval "$(kae completion bash)"                             in ~/.bashrc',
        'eval "$(kae completion zsh)"                              in ~/.zshrc, below compinit',
        "kae completion fish > ~/.config/fish/completions/kae.fish",
    )
    command.add_argument("shell", choices=("bash", "fish", "zsh"))
    asked = commands.add_parser("__complete")  # Only the scripts call it, so no help lists it.
    asked.add_argument("line")
    asked.set_defaults(module="complete")


def rule(commands: options.Commands) -> None:
    """Add `kae rule`."""
    command = options.command(
        commands,
        "rule",
        "explain a finding: its rule, an example and the fix",
        "kae rule policy-overlap",
        "kae rule    list all of them",
    )
    command.add_argument("code", nargs="?", metavar="CODE", help="the code in the finding's brackets")
    options.answer(command)


def help_(commands: options.Commands) -> None:
    """Add `kae help`."""
    command = options.command(commands, "help", "show the help of a command", "kae help compile")
    command.add_argument("topic", nargs="?", metavar="COMMAND", help="the command; all of them by default")


ALL = (config, schema, completion, rule, help_)
