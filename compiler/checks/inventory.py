"""Rules for one inventory, and for the file that a document of any kind is in."""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from compiler import keywords, names, recipes, repeats, wording
from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.formats import documents
from compiler.inventory import snapshot
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


def without_value(document: documents.Document) -> Iterator[Diagnostic]:
    """Yield the strings of a document that Helm made of values which nobody gave it."""
    pending: list[tuple[documents.Path, object]] = [((), document.data)]
    for path, value in pending:  # The loop appends to it.
        if isinstance(value, dict):
            pending.extend(((*path, key), inner) for key, inner in value.items())
        elif isinstance(value, list):
            pending.extend(((*path, index), inner) for index, inner in enumerate(value))
        elif value == keywords.NO_VALUE:
            message = f"'{wording.dotted(path)}' has no value: it is '{value}'."
            yield Diagnostic(code="invalid-value", span=document.span(*path), message=message, hint=keywords.GIVE_VALUE)


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


class _Fault(NamedTuple):
    """What is wrong with a label: its key or its value, what follows from it, and what to do."""

    is_key: bool
    predicate: str
    hint: str


@rule("label-not-read", "warning")
def labels(
    document: documents.Document, inventory: snapshot.Inventory, known: Sequence[recipes.Recipe]
) -> Iterator[Diagnostic]:
    """The labels of a node for opt-outs and devices are spelt as they are read, and so are their values.

    Otherwise a driver comes to a node that somebody wanted to keep without one, or a device is not seen.
    """
    nodes, fault = inventory.nodes, functools.cache(functools.partial(_fault, known))
    profiles = {id(node.profile): node.profile for node in nodes}.values()
    keys = set[str]().union(*(node.labels for node in nodes), *(profile.labels for profile in profiles))
    suspects = {key for key in keys if _may_be_wrong(key, known)}
    shared = {id(profile): _faulty(profile.labels, suspects, fault) for profile in profiles}
    found = repeats.grouped(
        (item, node.name)
        for node in (nodes if suspects else ())
        for item in (*_faulty(node.labels, suspects, fault), *shared[id(node.profile)])
    )
    for (key, value, wrong), having in found.items():
        path = _path_of(document, having[0], key)
        yield Diagnostic(
            span=document.key_span(*path) if wrong.is_key else document.span(*path),
            message=f"The label '{key}' of {wording.nodes(having)} of cluster '{inventory.cluster}' "
            f"{wrong.predicate.format(wording.quoted(value))}.",
            hint=wrong.hint,
        )


def _faulty(
    labels: Mapping[str, str], suspects: Collection[str], fault: Callable[[str, str], _Fault | None]
) -> list[tuple[str, str, _Fault]]:
    """Return the key, the value and the fault of the labels that have one."""
    judged = ((key, labels[key], fault(key, labels[key])) for key in labels if key in suspects)
    return [(key, value, wrong) for key, value, wrong in judged if wrong is not None]


def _may_be_wrong(key: str, known: Iterable[recipes.Recipe]) -> bool:
    """Return whether a label is of a recipe, or ends as an opt-out of one."""
    if recipes.recipe_of(key) is not None or any(key == name for one in known for name, _ in one.labels):
        return True
    name = key.rpartition("/")[2]
    return any(name == _name(label) for one in known for label in one.opt_outs)


def _name(key: str) -> str:
    return key.removeprefix(f"{recipes.DOMAIN}/")


def _fault(known: Sequence[recipes.Recipe], key: str, value: str) -> _Fault | None:
    """Return what is wrong with a label of a node; None for one that is read, and for those of others."""
    own = [recipe for recipe in known if key in recipe.deciding]
    faults = (_in_value(recipe, key, value) for recipe in own)
    return next((fault for fault in faults if fault is not None), None) if own else _in_key(known, key)


def _in_value(recipe: recipes.Recipe, key: str, value: str) -> _Fault | None:
    if key in recipe.opt_outs:
        part = "driver" if key == recipe.opt_out_driver else "device plugin"
        hint = f"Set it to 'false' on the node to keep the {part} away, or remove it."
        is_read = value in ("false", "true")
        return None if is_read else _Fault(False, f"has the value {{}}, which does not keep the {part} away", hint)
    if recipes.is_count(key):
        hint = "NFD's rules set it to a whole number: remove what sets it otherwise."
        return (
            None
            if value.isascii() and value.isdigit()
            else _Fault(False, "has the value {}, so no device is counted", hint)
        )
    allowed: Mapping[str, Sequence[str]] = dict(recipe.labels)
    wanted = allowed.get(key, ("true",))
    meant = next((one for one in wanted if one.lower() == value.lower()), None)
    if value in wanted or (key in allowed and meant is None) or value == "false":
        return None
    hint = f"Set it to '{meant or wanted[0]}' on the node, or remove what sets it."
    return _Fault(False, f"has the value {{}}, so {recipe.words.devices} are not seen there", hint)


def _in_key(known: Sequence[recipes.Recipe], key: str) -> _Fault | None:
    """Return the fault of a label that no recipe has; labels of devices of other recipes and releases are none."""
    by_name, head = {recipe.name: recipe for recipe in known}, recipes.recipe_of(key)
    if head is None:
        name = key.rpartition("/")[2]
        meant = next(label for recipe in known for label in recipe.opt_outs if _name(label) == name)
        return _Fault(True, "is not read", f"Did you mean '{meant}'? Correct it on the node.")
    near = wording.nearest(head, by_name)
    if near is None or recipes.is_of_machine(key) or recipes.is_of_driver(key):
        return None
    recipe = by_name[near]
    tails = {_tail(label): label for label in recipe.deciding}
    tail = wording.nearest(_tail(key), tails)
    if tail is None and not (head == near and "deploy" in _tail(key)):
        return None
    meant = wording.listed([f"'{label}'" for label in ([tails[tail]] if tail else recipe.opt_outs)])
    return _Fault(True, "is not read", f"Did you mean {meant.replace(' and ', ' or ')}? Correct it on the node.")


def _tail(key: str) -> str:
    """Return what follows the name of the recipe in a label."""
    return _name(key).partition(".")[2]


def _path_of(document: documents.Document, node: str, key: str) -> documents.Path:
    """Return the path of a label of a node in an inventory."""
    if document.data["kind"] != "NodeInventory":
        index = next(at for at, item in enumerate(document.data["items"]) if item["metadata"]["name"] == node)
        return "items", index, "metadata", "labels", key
    nodes = document.data["spec"]["nodes"]
    index = next(at for at, item in enumerate(nodes) if item["name"] == node)
    if key in nodes[index].get("labels", {}):
        return "spec", "nodes", index, "labels", key
    return "spec", "profiles", nodes[index]["profile"], "labels", key
