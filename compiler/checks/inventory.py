"""Rules for one inventory, and for the file that a document of any kind is in."""

from collections.abc import Collection, Iterator

from compiler import names, repeats, wording
from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.formats import documents
from compiler.read import fleet
from compiler.settings import Settings

shared_rule("recipe-file", "error", "A recipe is in recipe.yaml of a folder of its own, which holds no templates yet.")


def findings(document: documents.Document) -> Iterator[Diagnostic]:
    """Yield the mistakes in the names and profiles of a NodeInventory or a list of Nodes."""
    yield from duplicate_nodes(document)
    if document.data["kind"] == "NodeInventory":
        yield from unknown_profiles(document)


@rule("duplicate-node", "error")
def duplicate_nodes(document: documents.Document) -> Iterator[Diagnostic]:
    """An inventory has each node once."""
    is_canonical = document.data["kind"] == "NodeInventory"
    path: documents.Path = ("spec", "nodes") if is_canonical else ("items",)
    nodes = document.data["spec"].get("nodes", ()) if is_canonical else document.data["items"]
    node_names = [node["name"] if is_canonical else node["metadata"]["name"] for node in nodes]
    has_repeats = len(set(node_names)) < len(node_names)
    for _, (index, name) in repeats.of(enumerate(node_names), key=lambda pair: pair[1]) if has_repeats else ():
        message = f"Node '{name}' is in the inventory twice."
        hint = "Keep one of the two; after a merge, write the file anew with the watcher or `kae inventory`."
        yield Diagnostic(span=document.span(*path, index), message=message, hint=hint)


@rule("unknown-profile", "error")
def unknown_profiles(document: documents.Document) -> Iterator[Diagnostic]:
    """An inventory has the profile of each node."""
    spec = document.data["spec"]
    for index, node in enumerate(spec.get("nodes", ())):
        if node["profile"] not in spec.get("profiles", {}):
            message = f"Node '{node['name']}' has the profile '{node['profile']}', which is not in the inventory."
            hint = "After a merge, write the file anew with the watcher or `kae inventory`."
            yield Diagnostic(span=document.span("spec", "nodes", index, "profile"), message=message, hint=hint)


def misplaced(document: documents.Document, kind: str | None, settings: Settings) -> Iterator[Diagnostic]:
    """A document is in a folder for its kind, and a recipe in recipe.yaml of a folder of its own.

    An inventory folder, which a program in the cluster may write to, holds no policy, no cluster and no recipe.
    """
    recipes, policies = settings.recipes, settings.policies
    with_recipes, with_policies = settings.is_recipe_file(document.file), settings.is_policy_file(document.file)
    is_elsewhere = with_recipes and document.file.removeprefix(f"{recipes}/").split("/")[1:] != [names.RECIPE_FILE]
    if with_recipes and kind not in ("Recipe", None):
        message = f"A {kind} is not read from {recipes}/."
        hint = f"Move it to {policies}/." if kind in names.SHARED_KINDS else f"Keep recipes alone in {recipes}/."
        yield Diagnostic(code="recipe-file", span=document.span("kind"), message=message, hint=hint)
    elif is_elsewhere or (with_policies and kind == "Recipe"):
        message = f"A Recipe is not read from '{wording.file_name(document.file)}'."
        hint = f"Move it to {recipes}/NAME/{names.RECIPE_FILE}, with the recipe's name for NAME."
        yield Diagnostic(code="recipe-file", span=document.span("kind"), message=message, hint=hint)
    elif kind in names.SHARED_KINDS and not with_recipes and not with_policies:
        yield Diagnostic(
            code="unknown-kind",
            span=document.span("kind"),
            message=f"A {kind} is not read from an inventory folder.",
            notes=("The right to write inventories does not include the right to decide what runs on the nodes.",),
            hint="Move it to the folder of recipes." if kind == "Recipe" else f"Move it to {policies}/.",
        )


def second_recipe(first: documents.Document, document: documents.Document) -> Diagnostic:
    """Return the finding on a further document in the file of a recipe."""
    message = f"'{wording.file_name(document.file)}' holds more than one document."
    note, hint = f"The first one is at {first.span('kind')}.", "Give each recipe a folder of its own."
    return Diagnostic(code="recipe-file", span=document.span("kind"), message=message, notes=(note,), hint=hint)


@rule("inventory-name", "error")
def misnamed(document: documents.Document, files: Collection[str]) -> Iterator[Diagnostic]:
    """An inventory's file is named after its cluster.

    The name is also one that a cluster can have. `files` are the names of all files of the project.
    """
    name, expected = fleet.inventory_cluster(document), names.stem(document.file)
    if document.data["kind"] == "NodeInventory" and name != expected:
        message = f"The inventory of cluster '{name}' is in a file named '{expected}'."
        hint = _renaming(document.file, name, files)
        yield Diagnostic(span=document.span("metadata", "name"), message=message, hint=hint)
    elif not names.is_cluster(name):
        yield Diagnostic(
            span=Span(file=document.file),
            message=f"The file's name '{name}' cannot be the name of a cluster.",
            notes=("A list of nodes belongs to the cluster that its file is named after.",),
            hint="Use lower-case letters, digits, '-' and '.', at most 50 characters.",
        )


def _renaming(file: str, cluster: str, files: Collection[str]) -> str:
    """Return what to do with a file that holds the inventory of a cluster which it is not named after."""
    folder, _, name = file.rpartition("/")
    right = f"{cluster}.{name.rpartition('.')[2]}"
    if f"{folder}/{right}" not in files:
        return f"Rename the file to {right}, or write the name of its cluster into metadata.name."
    return f"{right} exists: write the name of this file's cluster into metadata.name, or delete the outdated file."
