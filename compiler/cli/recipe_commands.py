"""The verbs of `kae recipe`."""

from compiler.cli import options, parsing


def recipe(commands: options.Commands) -> None:
    """Add `kae recipe`."""
    command = options.command(
        commands,
        "recipe",
        "show, copy and check recipes: the driver and the devices of any accelerator",
        "kae recipe list",
        "kae recipe add onload",
    )
    verbs = command.add_subparsers(title="verbs", metavar="VERB", required=True)
    for add in (_list, _add):
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


def _add(verbs: options.Commands) -> None:
    verb = _verb(
        verbs,
        "add",
        "copy a recipe that kae ships into recipes/, with an example of a policy; overwrite nothing",
        "kae recipe add onload",
    )
    verb.add_argument("recipe", metavar="NAME", help="a recipe that `kae recipe list` shows as shipped")


ALL = (recipe,)
