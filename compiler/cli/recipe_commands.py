"""The verbs of `kae recipe`."""

from compiler.cli import options, parsing

_ELSEWHERE = {
    **dict.fromkeys(("validate", "verify", "lint"), "`kae recipe check` does that."),
    **dict.fromkeys(("describe", "get"), "`kae recipe show` does that."),
    **dict.fromkeys(("new", "create", "init"), "`kae recipe add` does that for a recipe that kae ships."),
    **dict.fromkeys(
        ("rm", "delete", "remove"), "Set driver.state: Absent in its policies, wait, delete them, and then its folder."
    ),
}
"""The hint for each verb of other tools that people try."""


def recipe(commands: options.Commands) -> None:
    """Add `kae recipe`."""
    command = options.command(
        commands,
        "recipe",
        "show, copy and check recipes: the driver and the devices of any accelerator",
        "kae recipe list",
        "kae recipe add onload",
    )
    command.elsewhere = _ELSEWHERE
    verbs = command.add_subparsers(title="verbs", metavar="VERB", required=True)
    for add in (_list, _show, _add, _check):
        add(verbs)


def _verb(verbs: options.Commands, name: str, text: str, *examples: str) -> parsing.Parser:
    verb = options.command(verbs, name, text, *examples)
    verb.set_defaults(module="recipe", verb=name)
    return verb


def _list(verbs: options.Commands) -> None:
    verb = _verb(
        verbs,
        "list",
        "list the recipes that kae ships, and those of the project",
        "kae recipe list",
    )
    options.strict(verb)
    options.answer(verb)
    options.quiet(verb)


def _show(verbs: options.Commands) -> None:
    verb = _verb(
        verbs,
        "show",
        "show a recipe: its nodes, parameters, images, modules, resources, and what its pods may do",
        "kae recipe show onload",
        "kae recipe show onload -o yaml",
    )
    verb.add_argument("recipe", metavar="NAME", help="a recipe of the project, or one that kae ships")
    options.strict(verb)
    options.answer(verb)
    options.quiet(verb)


def _check(verbs: options.Commands) -> None:
    verb = _verb(
        verbs,
        "check",
        "check the project's recipes alone, and try each on a made-up node, with every value of its enums",
        "kae recipe check",
        "kae recipe check npu --format github",
    )
    verb.add_argument("recipe", nargs="?", metavar="NAME", help="a recipe of the project; all of them by default")
    options.strict(verb)
    options.answer(verb)
    options.finding_format(verb)
    options.quiet(verb)


def _add(verbs: options.Commands) -> None:
    verb = _verb(
        verbs,
        "add",
        "copy a recipe that kae ships into recipes/, with an example of a policy; overwrite nothing",
        "kae recipe add onload",
    )
    verb.add_argument("recipe", metavar="NAME", help="a recipe that `kae recipe list` shows as shipped")


ALL = (recipe,)
