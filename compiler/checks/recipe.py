"""Rules for recipes, and for what DevicePolicies say of theirs, judged without any nodes."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler import names, recipes, release, wording
from compiler.checks import admission, host_paths, lists, parameters, programs, resources
from compiler.checks import references as of_texts
from compiler.diagnostics import Diagnostic, rule
from compiler.formats import documents
from compiler.formats import references as texts
from compiler.planning import kernels
from compiler.read import device_policy, fleet
from compiler.rendering import layout
from compiler.schema import phrases, recipe_schema

_MATCH: documents.Path = ("spec", "match")
_DRIVER: documents.Path = ("spec", "driver")
_PLUGIN: documents.Path = ("spec", "devicePlugin")

_TAKEN = (names.RECIPE, "npu", names.BOOTSTRAP, *layout.NAMES)
"""The names of KAE, of openFuyao's NPU operator, whose labels begin with it, and of the folders of an output."""
_PREFIX = "kae-"
_PROGRAMS = ("driver", "device-plugin", "pool")
"""Parts of names of objects: in `a-driver-b` the recipe and the policy would not be known from each other."""
_OTHER = (
    f"Choose a name other than {wording.listed(sorted(_TAKEN))}, without '{_PREFIX}' as its beginning, and without "
    f"{wording.listed(_PROGRAMS)} between hyphens or at an end."
)
_KINDS = ("deploy", "pool")
"""Parts of the labels of opt-outs and pools, in the place of a kind."""

_FEATURES = {
    "cpu": ("coprocessor", "cpuid", "cstate", "model", "pstate", "rdt", "security", "sst", "topology"),
    "kernel": ("config", "enabledmodule", "kvm", "loadedmodule", "selinux", "version"),
    "memory": ("hugepages", "numa", "nv", "swap"),
    "network": ("device", "virtual"),
    "pci": ("device",),
    "storage": ("block",),
    "system": ("dmiid", "name", "osrelease"),
    "usb": ("device",),
}
"""The features that NFD's worker reads here, by their sources ("Available features" of its documentation)."""
_HINTS: Mapping[str, str] = {
    "local": "Give the nodes a label, and match by labels: the worker reads no files but those of driver installers.",
    "rule": "Match by match.labels what other rules label.",
}
_VALUES: Mapping[str, tuple[str, int, float]] = {
    **dict.fromkeys(("Exists", "DoesNotExist", "IsTrue", "IsFalse"), ("no value", 0, 0)),
    **dict.fromkeys(("In", "NotIn", "InRegexp"), ("one value or more", 1, math.inf)),
    **dict.fromkeys(("Gt", "Lt"), ("one value", 1, 1)),
    "GtLt": ("two values", 2, 2),
}
"""The least and the most values of an operator, without which NFD skips the rule (`MatchExpression` of its API)."""

_KUBELET = "/var/lib/kubelet"

_MISSING = (
    "Write it to recipes/NAME/recipe.yaml; 'kae recipe list' prints those that are shipped. If it was removed on "
    "purpose, bring it back until driver.state: Absent has cleaned the hosts, and remove the policy first."
)

_Layer = tuple[documents.Path, str, Mapping[str, Any]]
"""A mapping, a wave or a frozen group of a policy: its path, its noun, and its data."""


def findings(source: documents.Document, schema: phrases.Schema, complete: fleet.Complete) -> Iterator[Diagnostic]:
    """Yield the mistakes in a recipe that its schema accepts; `schema` is that of recipes."""
    yield from name(source)
    yield from references(source)
    yield from of_others(source)
    of_schemas = list(parameters.schemas_of(source))
    of_parts = [*programs.findings(source), *of_texts.findings(source, schema, is_sound=not of_schemas)]
    of_parts += admission.findings(source)
    faults = [*of_schemas, *of_parts, *parameters.names(source, is_sound=not of_parts)]
    faults += [] if faults else parameters.defaults(source, schema)
    yield from faults
    yield from match(source)
    yield from features(source)
    yield from resources.of_recipe(source)
    # What a recipe is filled with is known of its policies alone where these have to give a value.
    stated = source.data["spec"].get("parameters", {})
    properties = stated.get("properties", {})
    is_filled = all("default" in properties.get(name, {}) for name in stated.get("required", ()))
    if not faults and is_filled:
        yield from exclusive(source)
        yield from _filled(source, schema, {}, fleet.filled(source, {}, complete))
        yield from programs.filled(source, schema)


@rule("recipe-name", "error")
def name(source: documents.Document) -> Iterator[Diagnostic]:
    """A recipe has the name of its folder, and none that other programs have."""
    own, span = source.data["metadata"]["name"], source.span("metadata", "name")
    folder = source.file.split("/")[-2]
    taken = own in _TAKEN or own.startswith(_PREFIX)
    if own != folder:
        message = f"The recipe '{own}' is in a folder named {wording.quoted(folder)}."
        yield Diagnostic(span=span, message=message, hint="Give both one name.")
    elif taken or any(f"-{program}-" in f"-{own}-" for program in _PROGRAMS):
        message = f"A recipe cannot be named '{own}'."
        notes = ("Objects, labels or resources of other programs have names with it.",)
        yield Diagnostic(span=span, message=message, notes=notes, hint=_OTHER)


def references(source: documents.Document) -> Iterator[Diagnostic]:
    """A recipe names images, kinds and payloads that it has."""
    spec: Mapping[str, Any] = source.data["spec"]
    matched, driver, plugin = spec["match"], spec.get("driver", {}), spec.get("devicePlugin", {})
    images = dict.fromkeys([*spec.get("images", {}), *recipe_schema.programs(spec)])
    used = [((*_DRIVER, field), driver[field]) for field in ("image", "version") if field in driver]
    used += (((*path, "image"), payload["image"]) for path, payload in lists.items(_DRIVER, driver, "payloads"))
    used += [((*_PLUGIN, "image"), plugin["image"])] if "image" in plugin else []
    for path, image in used:
        yield from lists.unknown(source, path, image, images, "an image of the recipe")
    kinds = [kind["kind"] for kind in matched.get("pci", ())]
    for path, resource in lists.items(_PLUGIN, plugin, "resources"):
        if "kind" in resource:
            yield from lists.unknown(source, (*path, "kind"), resource["kind"], kinds, "a kind of match.pci")
    if not any(map(_refers, (path for payload in driver.get("payloads", ()) for path in payload["paths"]))):
        yield from _payloads(source, driver, {})
    for path, data, field, key, noun in (
        (_MATCH, matched, "pci", "kind", "kind"),
        (_DRIVER, driver, "modules", "name", "module"),
        (_PLUGIN, plugin, "resources", "name", "resource"),
    ):
        named = (((*at, key), item[key]) for at, item in lists.items(path, data, field))
        yield from lists.twice(source, named, "The " + noun + " '{}' is there twice.")


def of_others(source: documents.Document) -> Iterator[Diagnostic]:
    """An image that is none of this project's names its repository: the default holds this project's alone."""
    for name, image in source.data["spec"].get("images", {}).items():
        if "repository" not in image and image["image"] not in release.DIGESTS:
            yield Diagnostic(
                code="missing-field",
                span=source.span("spec", "images", name, "image"),
                message=f"'spec.images.{name}.repository' is missing.",
                notes=(f"{release.REPOSITORY}, the default, has {wording.listed(sorted(release.DIGESTS))}.",),
                hint=f"Add the registry and the path before '{image['image']}', such as docker.io/example.",
            )


def _refers(text: str) -> bool:
    return "${" in text


def _payloads(
    source: documents.Document, driver: Mapping[str, Any], scope: Mapping[str, Any], *notes: str
) -> Iterator[Diagnostic]:
    """Files that a driver puts on the host are in a payload; without a scope, those without references."""
    paths = [path for payload in driver.get("payloads", ()) for path in payload["paths"]]
    for at, file in lists.items(_DRIVER, driver, "files"):
        place = texts.origin(source.data, (*at, "from"), scope)
        if not any(file["from"] == path or file["from"].startswith(f"{path}/") for path in paths) and (
            scope or not _refers(file["from"])
        ):
            span, message = source.span(*place), f"'{file['from']}' is in no payload."
            hint = "Add it to the paths of a payload."
            yield Diagnostic(code="recipe-reference", span=span, message=message, notes=notes, hint=hint)


def _filled(
    source: documents.Document,
    schema: phrases.Schema,
    given: Mapping[str, Any],
    spec: Mapping[str, Any],
    policy: documents.Document | None = None,
) -> Iterator[Diagnostic]:
    """Yield the mistakes in driver and device plugin with the values of a policy, or with the defaults."""
    note = f"This is so with the values of policy '{policy.data['metadata']['name']}'." if policy else ""
    faults = list(programs.stack(source, schema, given, note))
    yield from faults
    if not faults:
        scope = device_policy.scope(source, given)
        if any(map(_refers, (text for _, text in texts.texts((), source.data["spec"].get("driver", {}))))):
            yield from _payloads(source, spec["driver"], scope, *([note] if note else []))
        yield from host_paths.of_recipe(source, filled=(spec, scope))
        yield from resources.filled(source, spec, scope, policy)


def match(source: documents.Document) -> Iterator[Diagnostic]:
    """Hardware is known by what the recipe does not change, and a kind by devices or classes."""
    matched: Mapping[str, Any] = source.data["spec"]["match"]
    yield from _alone(source, matched)
    terms = [(*path, "matchExpressions") for path, _ in _features(matched)]
    for empty in ((*_MATCH, "labels"), *terms):
        if source.has(empty) and not source.value(empty):
            span, message = source.key_span(*empty), f"'{wording.dotted(empty)}' is empty."
            hint = "Name what all of the nodes have, or write all: {} for every node that a policy selects."
            yield Diagnostic(code="invalid-value", span=span, message=message, hint=hint)
    ways = [(_MATCH, matched), *lists.items(_MATCH, matched, "any")]
    for path, kind in (found for at, way in ways for found in lists.items(at, way, "pci")):
        if not kind.get("devices") and not kind.get("classes"):
            span = source.key_span(*path, "kind")
            message = f"The kind '{kind['kind']}' has neither devices nor classes."
            yield Diagnostic(code="missing-field", span=span, message=message, hint="Add one of the two.")
        if kind["kind"] in _KINDS:
            yield Diagnostic(
                code="reserved-name",
                span=source.span(*path, "kind"),
                message=f"A kind cannot be named '{kind['kind']}'.",
                notes=(f"'{recipes.DOMAIN}/RECIPE.{kind['kind']}.' is the beginning of other labels.",),
                hint="Give it another name.",
            )
    yield from _effects(source, source.data["spec"])


def _features(matched: Mapping[str, Any]) -> Iterator[tuple[documents.Path, Mapping[str, Any]]]:
    """Yield the features of a match, also those of its alternatives."""
    yield from lists.items(_MATCH, matched, "features")
    for path, way in lists.items(_MATCH, matched, "any"):
        yield from lists.items(path, way, "features")


def _alone(source: documents.Document, matched: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Yield that labels, or every node, stand beside another way to know the hardware, or that there is none."""
    ways = [name for name in matched if name != "extended"]
    single = next((name for name in ("labels", "all") if name in matched), None)
    if single is not None and len(ways) > 1:
        message = f"'match.{single}' stands beside {wording.listed(name for name in ways if name != single)}."
        hint = "Write pci, features and any together, of which all hold, or labels, or all alone."
        yield _invalid_key(source, (*_MATCH, single), message, hint)
    if "extended" in matched and (single is not None or not ways):
        message = "'match.extended' stands without pci, features or any, and NFD gives resources by a rule for these."
        yield _invalid_key(source, (*_MATCH, "extended"), message, "Match by one of the three.")


def _invalid_key(source: documents.Document, path: documents.Path, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code="invalid-value", span=source.key_span(*path), message=message, hint=hint)


@rule("match-on-effect", "error")
def _effects(source: documents.Document, spec: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """A recipe finds its nodes by nothing that it changes on them."""
    modules = spec.get("driver", {}).get("modules", ())
    loaded = {name for module in modules for name in (module["name"], *module.get("replaces", ()))}
    for path, feature in _features(spec["match"]):
        for name in feature["matchExpressions"] if feature["feature"] == "kernel.loadedmodule" else ():
            if name.replace("-", "_") in loaded:
                yield Diagnostic(
                    span=source.key_span(*path, "matchExpressions", name),
                    message=f"The rule asks for module '{name}', which this recipe loads or replaces.",
                    notes=("In the middle of a change the label would go, and the driver installer with it.",),
                    hint="Match by the hardware: pci, or another feature.",
                )
    own = f"{recipes.DOMAIN}/{source.data['metadata']['name']}.present"
    for key in spec["match"].get("labels", {}):
        whose = "its own rule sets" if key == own else "policies change"
        if recipes.is_of_pool(key) or recipes.is_count(key) or recipes.is_of_driver(key) or key == own:
            message = f"The recipe asks for '{key}', a label that {whose}."
            hint = "Match by a label that people or clouds set, or by pci."
            yield Diagnostic(span=source.key_span("spec", "match", "labels", key), message=message, hint=hint)


def features(source: documents.Document) -> Iterator[Diagnostic]:
    """NFD's worker reports the features of a recipe, and its master can evaluate their conditions.

    A rule that never holds would label no node.
    """
    for path, feature in _features(source.data["spec"]["match"]):
        reported_by, _, own = feature["feature"].partition(".")
        if own not in _FEATURES.get(reported_by, ()):
            every = [f"{source}.{name}" for source, names in _FEATURES.items() for name in names]
            hint = _HINTS.get(reported_by, f"The sources of features are {', '.join(_FEATURES)}.")
            hint = wording.did_you_mean(feature["feature"], every) or hint
            yield _invalid(source, (*path, "feature"), f"NFD reports no feature '{feature['feature']}'.", hint)
        for attribute, condition in feature["matchExpressions"].items():
            yield from _condition(source, (*path, "matchExpressions", attribute), condition)


def _condition(source: documents.Document, path: documents.Path, condition: Mapping[str, Any]) -> Iterator[Diagnostic]:
    operator, values = condition["op"], list(lists.items(path, condition, "value"))
    wanted, least, most = _VALUES[operator]
    if not least <= len(values) <= most:
        yield _invalid(source, (*path, "op"), f"The operator {operator} takes {wanted}.", "Correct 'value'.")
    for at, value in values if operator == "InRegexp" else ():
        if kernels.fault(value) is not None:
            message = f"{wording.quoted(value)} is not a pattern of RE2."
            yield _invalid(source, at, message, "See https://github.com/google/re2/wiki/Syntax.")


def _invalid(source: documents.Document, path: documents.Path, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code="invalid-value", span=source.span(*path), message=message, hint=hint)


def exclusive(source: documents.Document) -> Iterator[Diagnostic]:
    """Parameters that exclude each other are there, and at most one of them is true, or set, by default."""
    spec: Mapping[str, Any] = source.data["spec"]
    properties = spec.get("parameters", {}).get("properties", {})
    for index, together in enumerate(spec.get("exclusive", ())):
        path: documents.Path = ("spec", "exclusive", index)
        for at, name in enumerate(together):
            yield from lists.unknown(source, (*path, at), name, list(properties), "a parameter")
        on = [name for name in together if _is_on(properties.get(name, {}).get("default"))]
        if len(on) > 1:
            message = (
                f"{wording.listed(map(wording.quoted, on))} are {_on(on, device_policy.values(source, {}))} by default."
            )
            hint = "Leave one of them so."
            span = source.span(*path, together.index(on[1]))
            yield Diagnostic(code="values-exclusive", span=span, message=message, hint=hint)


@rule("unknown-recipe", "error")
def unknown(document: documents.Document, known: Mapping[str, object], shipped: tuple[str, ...]) -> Diagnostic:
    """A DevicePolicy is of a recipe of the project."""
    name = document.data["spec"]["recipe"]
    near = wording.nearest(name, {*known, *shipped})
    parts = [f"Did you mean '{near}'?"] if near and near != name else []
    if name in shipped or (near in shipped and near not in known):
        parts.append(f"'kae recipe add {name if name in shipped else near}' brings it.")
    hint = " ".join(parts) or _MISSING
    message = f"There is no recipe {wording.quoted(name)}."
    return Diagnostic(span=document.span("spec", "recipe"), message=message, hint=hint)


def of_policy(
    document: documents.Document, recipe: documents.Document, schema: phrases.Schema, complete: fleet.Complete
) -> Iterator[Diagnostic]:
    """Yield the mistakes in a DevicePolicy that the schema of its recipe accepts; `schema` is that of recipes."""
    given = document.data["spec"].get("values", {})
    filled = fleet.filled(recipe, given, complete)
    yield from exclusive_values(document, recipe)
    yield from modules(document, recipe)
    yield from no_modules(document, recipe)
    yield from unused(document, recipe, filled)
    yield from _filled(recipe, schema, given, filled, document)
    yield from programs.of_policy(document, recipe, schema)
    kubelet = document.data["spec"].get("kubeletDir", _KUBELET)
    if kubelet != _KUBELET:
        yield from host_paths.of_recipe(recipe, kubelet, (filled, device_policy.scope(recipe, given)))


def _layers(document: documents.Document) -> Iterator[_Layer]:
    spec: Mapping[str, Any] = document.data["spec"]
    rollout: documents.Path = ("spec", "rollout")
    for path, data, field, noun in (
        (("spec",), spec, "kernelMappings", "Mapping"),
        (rollout, spec.get("rollout", {}), "waves", "Wave"),
        (rollout, spec.get("rollout", {}), "frozen", "Frozen group"),
    ):
        yield from ((at, noun, item) for at, item in lists.items(path, data, field))


@rule("values-exclusive", "error")
def exclusive_values(document: documents.Document, recipe: documents.Document) -> Iterator[Diagnostic]:
    """Of parameters that exclude each other, at most one is true or set."""
    own = document.data["spec"].get("values", {})
    layers: list[tuple[documents.Path, Mapping[str, Any]]] = [
        (("spec",), {}),
        *((path, data.get("values", {})) for path, _, data in _layers(document)),
    ]
    for (path, given), together in itertools.product(layers, recipe.data["spec"].get("exclusive", ())):
        values = device_policy.values(recipe, {**own, **given})
        on = [name for name in together if _is_on(values.get(name))]
        if len(on) < 2 or (given == {} and path != ("spec",)):
            continue
        stated = [
            ((*path, "values", name) if name in given else ("spec", "values", name))
            for name in on
            if name in {**own, **given}
        ]
        how, both = _on(on, values), "both" if len(on) == 2 else "all"
        off = "Set {} of them to false." if how == "true" else "Leave {} of them out."
        yield Diagnostic(
            span=document.span(*stated[0]) if stated else document.span("metadata", "name"),
            message=f"{wording.listed(map(wording.quoted, on))} are {both} {how}.",
            notes=tuple(f"'{name}' is {how} by default." for name in on if name not in {**own, **given}),
            hint=off.format("one" if len(on) == 2 else "all but one"),
        )


def _is_on(value: Any) -> bool:
    """Return whether a parameter counts for those that exclude it: a boolean that is true, another one that is set."""
    return value if isinstance(value, bool) else value not in (None, [], {})


def _on(names: Iterable[str], values: Mapping[str, Any]) -> str:
    return "true" if all(isinstance(values.get(name), bool) for name in names) else "set"


@rule("module-required", "error")
def modules(document: documents.Document, recipe: documents.Document) -> Iterator[Diagnostic]:
    """A policy leaves out none but optional modules.

    A choice of modules has each once.
    """
    declared = recipe.data["spec"].get("driver", {}).get("modules", ())
    needed = [module["name"] for module in declared if not module.get("optional", False)]
    for path, chosen in _chosen(document):
        for name in needed:
            if chosen is not None and name not in chosen:
                message = f"Module '{name}' is not optional, and driver.modules leaves it out."
                yield Diagnostic(span=document.key_span(*path), message=message, hint="Add it.")
        named = (((*path, index), name) for index, name in enumerate(chosen or ()))
        yield from lists.twice(document, named, "The module '{}' is there twice.")


def no_modules(document: documents.Document, recipe: documents.Document) -> Iterator[Diagnostic]:
    """A driver has a module, by which the installer knows that it is loaded; where each mapping chooses some, these."""
    spec = document.data["spec"]
    declared = recipe.data["spec"].get("driver", {}).get("modules", ())
    if not declared or not all(module.get("optional", False) for module in declared):
        return
    top, *of_layers = _chosen(document)
    mappings: Sequence[Mapping[str, Any]] = spec.get("kernelMappings") or ({},)
    is_replaced = all("modules" in mapping.get("driver", {}) for mapping in mappings)
    for path, chosen in of_layers if is_replaced else (top, *of_layers):
        if chosen == [] or (chosen is None and path == top[0]):
            message = "All modules of the recipe are optional, and driver.modules names none."
            hint = "Name at least one."
            span = document.span("spec", "recipe") if chosen is None else document.key_span(*path)
            yield Diagnostic(code="module-required", span=span, message=message, hint=hint)


def _chosen(document: documents.Document) -> list[tuple[documents.Path, list[str] | None]]:
    """Return the choices of modules, of the policy and of its layers: their paths and the names, None for none."""
    every: list[_Layer] = [(("spec",), "", document.data["spec"]), *_layers(document)]
    return [((*path, "driver", "modules"), data.get("driver", {}).get("modules")) for path, _, data in every]


def _once(recipe: documents.Document, field: str, name: str) -> str:
    """Return the program that a policy has once, and that uses an image or a value; empty where none does."""
    for one in recipe.data["spec"].get("programs", ()):
        used = device_policy.images_of(one) if field == "images" else of_texts.used({"programs": [one]})
        if one.get("per") != "pool" and name in used:
            return str(one["name"])
    return ""


@rule("override-unused", "error")
def unused(document: documents.Document, recipe: documents.Document, filled: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Mappings, waves and frozen groups set only what the driver and the programs of pools use."""
    driver = filled.get("driver", {})
    payloads = {payload["image"] for payload in driver.get("payloads", ())}
    pooled = [one for one in recipe.data["spec"].get("programs", ()) if one.get("per") == "pool"]
    of_programs = {image for one in pooled for image in device_policy.images_of(one)}
    images = {driver.get("image"), driver.get("version"), *payloads, *of_programs}
    of_driver, of_plugin = (
        of_texts.used({name: recipe.data["spec"][name]} if name in recipe.data["spec"] else {})
        for name in ("driver", "devicePlugin")
    )
    values = of_texts.used({"programs": pooled})
    once = of_driver | of_plugin & values
    for path, noun, data in _layers(document):
        for field, used in (("values", values - once), ("images", images)):
            for name in sorted(data.get(field, {}).keys() - used):
                user = "neither the driver nor a program of a pool uses" if pooled else "the driver does not use"
                note = "Mappings, waves and frozen groups change the driver: a policy has one device plugin."
                hint = f"Set it in spec.{field}."
                if whole := _once(recipe, field, name):
                    user = f"program '{whole}' has once in a policy"
                    note = "It is per: policy, the default: one DaemonSet for all nodes."
                    hint = f"Write per: pool for the program in the recipe, or set it in spec.{field}."
                elif field == "values" and name in once:
                    user = "has one value in a policy"
                    note = "Driver or device plugin have it in a field, which is the same in all pools."
                elif pooled:
                    note = "Mappings, waves and frozen groups change what a pool has: a policy has the rest once."
                message = f"{noun} '{data['name']}' sets '{field}.{name}', which {user}."
                yield Diagnostic(span=document.key_span(*path, field, name), message=message, notes=(note,), hint=hint)
