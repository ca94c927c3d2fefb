"""Recipes tried without a policy: a made-up cluster of one node gets them, with the defaults and other values."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from compiler import API_VERSION, diagnostics, pipeline, recipes, schema
from compiler.formats import decode, documents
from compiler.planning import kernels, supported
from compiler.project import package_data
from compiler.read import device_policy, kae_policy
from compiler.rendering import layout, templates
from compiler.settings import Settings

Values = Mapping[str, Any]

_NAME = "trial"
_ENTRY = "entry"
"""The key of a made-up entry of a map."""
_KERNEL = "6.6.0-1.x86_64"
_SYSTEM, _VERSION = "openEuler", "24.03"
_KUBERNETES = f"1.{supported.MUTATING_KUBERNETES}"
"""A release that has all that recipes use, their policies of admission too."""
_KUBELET = "v1.33.0"
"""The oldest kubelet beside it, whose pods have what those of all releases have."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe with values, the errors that a policy with them has, and the objects that it makes."""

    recipe: documents.Document
    values: Values
    """Those that differ from the defaults; the last one is what is tried."""
    findings: diagnostics.Findings
    objects: tuple[layout.Object, ...]
    """Those of the recipe."""

    @property
    def said(self) -> str:
        """The values in words."""
        return ", ".join(f"{name}: {json.dumps(value)}" for name, value in self.values.items()) or "defaults"


def faults(trial: Trial) -> Iterator[diagnostics.Diagnostic]:
    """Yield the errors of a trial, at places of the recipe, each with the values."""
    place = trial.recipe.span("metadata", "name")
    for name in trial.values:  # The last one is what is tried.
        place = trial.recipe.key_span("spec", "parameters", "properties", name)
    for finding in trial.findings:
        span = finding.span if finding.span.file == trial.recipe.file else place
        if finding.severity == "error":
            yield finding._replace(span=span, notes=(*finding.notes, f"This is so with {trial.said}."))


def every(recipe: documents.Document, settings: Settings) -> tuple[Trial, ...]:
    """Return a trial with the defaults, and one with each other value of an enum or a boolean, in lists and maps too.

    There is none where nothing says which values a parameter takes that every policy has to give.
    """
    spec = recipe.data["spec"]
    needed = dict(_needed(spec))
    if None in needed.values():
        return ()
    changed = []
    for name, value in _choices(spec, needed):
        own = _alone(spec, name, value)
        changed.append({other: given for other, given in needed.items() if other not in own} | own)
    return tuple(trial(recipe, values, settings) for values in (needed, *changed))


def trial(recipe: documents.Document, values: Values, settings: Settings) -> Trial:
    """Return the trial of a recipe without mistakes, with values."""
    value = device_policy.recipe_of(recipe)
    found, objects = _compiled([recipe], value, _policy(recipe.data, values), settings)
    own = tuple(each for each in objects if each.path.startswith(f"{value.name}/"))
    return Trial(recipe=recipe, values=values, findings=found, objects=own)


def of_builtin(recipe: recipes.Recipe, settings: Settings) -> tuple[layout.Object, ...]:
    """Return the objects of a cluster whose policy serves every kind of the built-in recipe."""
    spec = {"clusters": [_NAME], "operator": dict.fromkeys(kae_policy.WRITTEN.switches, True)}
    _, objects = _compiled([], recipe, _object("KAEPolicy", _NAME, spec), settings)
    return objects


def _compiled(
    sources: Iterable[documents.Document], recipe: recipes.Recipe, policy: Values, settings: Settings
) -> tuple[diagnostics.Findings, tuple[layout.Object, ...]]:
    """Return the findings on a policy for a cluster of one node with the hardware, and its objects if none is an error.

    `sources` are the documents that the policy needs.
    """
    judge = schema.Judge(package_data.schemas())
    texts = {
        f"{settings.policies}/{_NAME}.json": policy,
        f"{settings.policies}/{_NAME}-cluster.json": _object("KAECluster", _NAME, {"kubernetesVersion": _KUBERNETES}),
        f"{settings.inventories[0]}/{_NAME}.json": {"apiVersion": "v1", "kind": "List", "items": [_node(recipe)]},
    }
    made = [decode.decode(file, json.dumps(data).encode())[0][0] for file, data in texts.items()]
    fleet, found = pipeline.read([*sources, *made], judge, settings=settings)
    if not fleet.sound:
        return tuple(found), ()
    planned, on_cluster = pipeline.plan_cluster(fleet, fleet.clusters[0])
    found = (*found, *on_cluster)
    if settings.has_errors(found):
        return found, ()
    render = templates.renderer(package_data.templates(), package_data.code())
    _, objects = pipeline.render_cluster(planned, render)
    return (), objects


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _policy(recipe: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """Return a policy that gets every module of the recipe, on every kernel."""
    spec: dict[str, Any] = {"recipe": recipe["metadata"]["name"], "clusters": [_NAME], "values": values}
    driver = recipe["spec"].get("driver")
    if driver is not None:
        spec["driver"] = {"modules": [module["name"] for module in driver["modules"]]}
        spec["kernelMappings"] = [{"name": "every", "regexp": ".+"}]
    programs = recipe["spec"].get("programs", ())
    texts = json.dumps([(program["pod"], program.get("files", {})) for program in programs])
    system = {"os": {"id": _SYSTEM, "versions": [_VERSION]}} if "${os." in texts else {}
    if system:
        spec["kernelMappings"] = [{"name": "every", "regexp": ".+", **system}]
    if "${kernel." in texts:
        # Such a program runs in pools of one kernel, which a name of an image makes.
        named = {
            image: {"version": "${KERNEL_FULL_VERSION}"}
            for each in programs
            if each.get("per") == "pool"
            for image in device_policy.images_of(each)
        }
        spec["kernelMappings"] = [{"name": "every", "regexp": ".+", "images": named, **system}]
    return _object("DevicePolicy", _NAME, spec)


def _node(recipe: recipes.Recipe) -> dict[str, Any]:
    """Return a node, as the API server prints it, that has the hardware."""
    labels = {
        "feature.node.kubernetes.io/kernel-version.full": _KERNEL,
        kernels.SYSTEM: _SYSTEM,
        kernels.VERSION: _VERSION,
        **{label: "true" for kind in recipe.kinds for label in (recipe.present, kind.present)},
        **{key: values[0] for key, values in recipe.labels},
    }
    info = {"architecture": "amd64", "kernelVersion": _KERNEL, "kubeletVersion": _KUBELET, "osImage": "Linux"}
    return {"kind": "Node", "metadata": {"name": "node", "labels": labels}, "status": {"nodeInfo": info}}


def _needed(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield a value for each parameter that every policy has to give, None where its schema says too little."""
    parameters = spec.get("parameters", {})
    for name in parameters.get("required", ()):
        schema_of = parameters["properties"][name]
        if "default" not in schema_of:
            yield name, _example(schema_of)


def _example(schema_of: Mapping[str, Any]) -> Any:
    if "enum" in schema_of:
        return schema_of["enum"][0]
    if schema_of["type"] in ("integer", "number"):
        return schema_of.get("minimum", min(1, schema_of.get("maximum", 1)))
    return False if schema_of["type"] == "boolean" else None


def _choices(spec: Mapping[str, Any], needed: Values) -> Iterator[tuple[str, Any]]:
    """Yield each value of an enum or a boolean that is neither the default nor `needed`."""
    for name, schema_of in spec.get("parameters", {}).get("properties", {}).items():
        every = [value for value in _values(schema_of) if value != needed.get(name, schema_of.get("default"))]
        yield from ((name, value) for number, value in enumerate(every) if value not in every[:number])


def _values(schema_of: Mapping[str, Any]) -> Iterator[Any]:
    """Yield each value of an enum or a boolean; in a list alone, and in an object beside what that has to have."""
    if "enum" in schema_of:
        yield from schema_of["enum"]
    elif schema_of["type"] == "boolean":
        yield from (False, True)
    elif schema_of["type"] == "array" and schema_of.get("minItems", 0) <= 1:
        yield from ([value] for value in _values(schema_of["items"]))
    elif schema_of["type"] == "object":
        fields = schema_of.get("properties", {})
        others = schema_of.get("additionalProperties")
        needed = {name: _example(fields[name]) for name in schema_of.get("required", ())}
        if None in needed.values():
            return
        for name, field in (*fields.items(), *([(_ENTRY, others)] if others else [])):
            yield from ({**schema_of.get("default", {}), **needed, name: value} for value in _values(field))


def _alone(spec: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return a value, with false for the boolean parameters that exclude it."""
    fields = spec.get("parameters", {}).get("properties", {})
    lists = spec.get("exclusive", ()) if value is not False else ()
    others = {other for one in lists if name in one for other in one if other != name}
    return {other: False for other in fields if other in others and fields[other]["type"] == "boolean"} | {name: value}
