"""Rules for one recipe, judged without any policy."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from compiler import names, recipes, repeats, wording
from compiler.checks.recipes import features, offers, parameters, resources
from compiler.diagnostics import Diagnostic, rule, shared_rule
from compiler.formats import documents
from compiler.read import fleet
from compiler.rendering import layout
from compiler.schema import phrases, recipe_schema

shared_rule("recipe-file", "error", "A recipe is in recipe.yaml of a folder of its own, which holds no templates yet.")

_TAKEN = (names.RECIPE, "npu", names.BOOTSTRAP, *layout.NAMES)
"""The names of KAE, of openFuyao's NPU operator, whose labels begin with it, and of the folders of an output."""
_PREFIX = "kae-"
_PROGRAMS = (("driver",), ("device", "plugin"), ("pool",))
"""Parts of names of objects: in `a-driver-b` the recipe and the policy would not be known from each other."""
_OTHER = (
    f"Choose a name other than {wording.listed(sorted(_TAKEN))}, without '{_PREFIX}' as its beginning, and without "
    f"{wording.listed(['-'.join(program) for program in _PROGRAMS])} between hyphens or at an end."
)
_KINDS = ("deploy", "pool")
"""Parts of the labels of opt-outs and pools, in the place of a kind."""


def findings(source: documents.Document, schema: phrases.Schema, complete: fleet.Complete) -> Iterator[Diagnostic]:
    """Yield the mistakes in a recipe that its schema accepts; `schema` is that of recipes."""
    yield from name(source)
    yield from references(source)
    faults = list(parameters.findings(source, schema))
    yield from faults
    yield from resources.privileges(source)
    yield from resources.any_device(source)
    yield from match(source)
    yield from features.findings(source)
    yield from resources.classes(source)
    # What a recipe is filled with is known of its policies alone where these have to give a value.
    stated = source.data["spec"].get("parameters", {})
    properties = stated.get("properties", {})
    is_filled = all("default" in properties.get(name, {}) for name in stated.get("required", ()))
    if not faults and is_filled:
        filled = fleet.filled(source, {}, complete)
        yield from exclusive(source)
        yield from resources.conflicts(source, filled)
        yield from offers.findings(source, filled)


@rule("recipe-name", "error")
def name(source: documents.Document) -> Iterator[Diagnostic]:
    """A recipe has the name of its folder, and none that other programs have."""
    own, span = source.data["metadata"]["name"], source.span("metadata", "name")
    folder = source.file.split("/")[-2]
    parts = own.split("-")
    taken = own in _TAKEN or own.startswith(_PREFIX)
    if own != folder:
        message = f"The recipe '{own}' is in a folder named {wording.quoted(folder)}."
        yield Diagnostic(code="recipe-name", span=span, message=message, hint="Give both one name.")
    elif taken or any(_holds(parts, program) for program in _PROGRAMS):
        message = f"A recipe cannot be named '{own}'."
        notes = ("Objects, labels or resources of other programs have names with it.",)
        yield Diagnostic(code="recipe-name", span=span, message=message, notes=notes, hint=_OTHER)


def _holds(parts: list[str], program: tuple[str, ...]) -> bool:
    return any(tuple(parts[index : index + len(program)]) == program for index in range(len(parts)))


@rule("recipe-reference", "error")
def references(source: documents.Document) -> Iterator[Diagnostic]:
    """A recipe names images, kinds and payloads that it has."""
    spec: Mapping[str, Any] = source.data["spec"]
    driver, plugin = spec.get("driver", {}), spec.get("devicePlugin", {})
    images = dict.fromkeys([*spec.get("images", {}), *recipe_schema.programs(spec)])
    used: list[tuple[documents.Path, str]] = [
        *((("driver", field), driver[field]) for field in ("image", "version") if field in driver),
        *((("driver", "payloads", at, "image"), one["image"]) for at, one in enumerate(driver.get("payloads", ()))),
        *([(("devicePlugin", "image"), plugin["image"])] if "image" in plugin else []),
    ]
    for path, image in used:
        yield from _unknown(source, path, image, images, "an image of the recipe")
    kinds = [kind["kind"] for kind in spec["match"].get("pci", ())]
    for index, resource in enumerate(plugin.get("resources", ())):
        if "kind" in resource:
            path = ("devicePlugin", "resources", index, "kind")
            yield from _unknown(source, path, resource["kind"], kinds, "a kind of match.pci")
    yield from _files(source, driver)
    yield from _once(source, ("match", "pci"), "kind", spec["match"].get("pci", ()), "kind")
    yield from _once(source, ("driver", "modules"), "name", driver.get("modules", ()), "module")
    yield from _once(source, ("devicePlugin", "resources"), "name", plugin.get("resources", ()), "resource")


def _files(source: documents.Document, driver: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """A file that is put on the host is in a payload."""
    paths = [path for payload in driver.get("payloads", ()) for path in payload["paths"]]
    for index, file in enumerate(driver.get("files", ())):
        if not any(file["from"] == path or file["from"].startswith(f"{path}/") for path in paths):
            yield Diagnostic(
                code="recipe-reference",
                span=source.span("spec", "driver", "files", index, "from"),
                message=f"'{file['from']}' is in no payload.",
                hint="Add it to the paths of a payload.",
            )


def _unknown(
    source: documents.Document, path: documents.Path, name: str, known: Collection[str], noun: str
) -> Iterator[Diagnostic]:
    if name not in known:
        listed = f"The known ones are {wording.listed(known)}." if known else "The recipe has none."
        hint = wording.did_you_mean(name, known) or listed
        message = f"'{name}' is not {noun}."
        yield Diagnostic(code="recipe-reference", span=source.span("spec", *path), message=message, hint=hint)


def _once(
    source: documents.Document, path: documents.Path, field: str, items: Iterable[Mapping[str, Any]], noun: str
) -> Iterator[Diagnostic]:
    for _, (index, item) in repeats.of(enumerate(items), key=lambda pair: str(pair[1][field])):
        span = source.span("spec", *path, index, field)
        message = f"The {noun} '{item[field]}' is there twice."
        yield Diagnostic(code="duplicate-name", span=span, message=message, hint="Keep one of the two.")


def match(source: documents.Document) -> Iterator[Diagnostic]:
    """Hardware is known by what the recipe does not change, and a kind by devices or classes."""
    spec: Mapping[str, Any] = source.data["spec"]
    path: documents.Path = ("spec", "match")
    terms = [(*path, "features", at, "matchExpressions") for at, _ in enumerate(spec["match"].get("features", ()))]
    for empty in ((*path, "labels"), *terms):
        if source.has(empty) and not source.value(empty):
            span, message = source.key_span(*empty), f"'{wording.dotted(empty)}' is empty."
            hint = "Name what all of the nodes have, or write all: {} for every node that a policy selects."
            yield Diagnostic(code="invalid-value", span=span, message=message, hint=hint)
    for index, kind in enumerate(spec["match"].get("pci", ())):
        if not kind.get("devices") and not kind.get("classes"):
            span = source.key_span(*path, "pci", index, "kind")
            message, hint = f"The kind '{kind['kind']}' has neither devices nor classes.", "Add one of the two."
            yield Diagnostic(code="missing-field", span=span, message=message, hint=hint)
        if kind["kind"] in _KINDS:
            span = source.span(*path, "pci", index, "kind")
            message = f"A kind cannot be named '{kind['kind']}'."
            note = f"'{recipes.DOMAIN}/RECIPE.{kind['kind']}.' is the beginning of other labels."
            yield Diagnostic(
                code="reserved-name", span=span, message=message, notes=(note,), hint="Give it another name."
            )
    yield from _effects(source, spec)


@rule("match-on-effect", "error")
def _effects(source: documents.Document, spec: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """A recipe finds its nodes by nothing that it changes on them."""
    modules = spec.get("driver", {}).get("modules", ())
    loaded = {name for module in modules for name in (module["name"], *module.get("replaces", ()))}
    for index, feature in enumerate(spec["match"].get("features", ())):
        for name in feature["matchExpressions"] if feature["feature"] == "kernel.loadedmodule" else ():
            if name.replace("-", "_") in loaded:
                yield Diagnostic(
                    code="match-on-effect",
                    span=source.key_span("spec", "match", "features", index, "matchExpressions", name),
                    message=f"The rule asks for module '{name}', which this recipe loads or replaces.",
                    notes=("In the middle of a change the label would go, and the driver installer with it.",),
                    hint="Match by the hardware: pci, or another feature.",
                )
    own = f"{recipes.DOMAIN}/{source.data['metadata']['name']}.present"
    for key in spec["match"].get("labels", {}):
        whose = "its own rule sets" if key == own else "policies change"
        if recipes.is_of_pool(key) or recipes.is_count(key) or key == own:
            yield Diagnostic(
                code="match-on-effect",
                span=source.key_span("spec", "match", "labels", key),
                message=f"The recipe asks for '{key}', a label that {whose}.",
                hint="Match by a label that people or clouds set, or by pci.",
            )


def exclusive(source: documents.Document) -> Iterator[Diagnostic]:
    """Parameters that exclude each other are boolean, and at most one of them is true by default."""
    spec: Mapping[str, Any] = source.data["spec"]
    properties = spec.get("parameters", {}).get("properties", {})
    for index, together in enumerate(spec.get("exclusive", ())):
        for at, name in enumerate(together):
            if properties.get(name, {}).get("type") != "boolean":
                known = [key for key, schema in properties.items() if schema.get("type") == "boolean"]
                yield from _unknown(source, ("exclusive", index, at), name, known, "a boolean parameter")
        on = [name for name in together if properties.get(name, {}).get("default") is True]
        if len(on) > 1:
            yield Diagnostic(
                code="values-exclusive",
                span=source.span("spec", "exclusive", index, together.index(on[1])),
                message=f"{wording.listed(map(wording.quoted, on))} are true by default.",
                hint="Leave one of them true.",
            )


def second(first: documents.Document, document: documents.Document) -> Diagnostic:
    """Return the finding on a further document in the file of a recipe."""
    return Diagnostic(
        code="recipe-file",
        span=document.span("kind"),
        message=f"'{wording.file_name(document.file)}' holds more than one document.",
        notes=(f"The first one is at {first.span('kind')}.",),
        hint="Give each recipe a folder of its own.",
    )


def misplaced(document: documents.Document, kind: str | None, folder: str, policies: str) -> Iterator[Diagnostic]:
    """A Recipe is in recipe.yaml of a folder of its own, and nothing else is below the folder of recipes."""
    parts = document.file.removeprefix(f"{folder}/").split("/")
    if kind is not None and kind != "Recipe":
        message = f"A {kind} is not read from {folder}/."
        hint = f"Move it to {policies}/." if kind in names.SHARED_KINDS else f"Keep recipes alone in {folder}/."
        yield Diagnostic(code="recipe-file", span=document.span("kind"), message=message, hint=hint)
    elif len(parts) != 2 or parts[1] != names.RECIPE_FILE:
        message = f"A Recipe is not read from '{wording.file_name(document.file)}'."
        hint = f"Move it to {folder}/NAME/{names.RECIPE_FILE}, with the recipe's name for NAME."
        yield Diagnostic(code="recipe-file", span=document.span("kind"), message=message, hint=hint)
