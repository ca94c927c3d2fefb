"""The answer of `kae recipe show`: what a recipe finds, asks, brings, offers, and may do."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compiler import release, wording
from compiler.formats import canonical
from compiler.planning import images
from compiler.read import device_policy
from compiler.rendering import layout, privileges


def data(name: str, spec: Mapping[str, Any], objects: Iterable[layout.Object]) -> dict[str, Any]:
    """Return what a recipe says in the fields of its spec, and the privileges of its programs, for programs."""
    return {"name": name, **spec, "privileges": list(map(str, rights(objects)))}


def text(name: str, spec: Mapping[str, Any], objects: Iterable[layout.Object]) -> str:
    """Return the answer for people."""
    allowed = [(privilege.program, privilege.text) for privilege in rights(objects)]
    parts = [
        [f"{name}: {spec['title']}", f"nodes: {nodes(spec['match'])}", *_supported(spec)],
        _table(("PARAMETER", "TYPE", "DEFAULT", "MEANING"), parameters(spec)),
        list(excluded(spec)),
        _table(("IMAGE", "REFERENCE"), references(spec)),
        _table(("MODULE", "PARAMETERS", "REPLACES", ""), modules(spec)),
        _table(("RESOURCE", "CLASS", "DEVICES"), resources(spec)),
        _table(("PROGRAM", "PRIVILEGE"), allowed),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def rights(objects: Iterable[layout.Object]) -> tuple[privileges.Listed, ...]:
    """Return what the programs among objects may do, and what the API server adds to pods for them."""
    every = tuple(objects)
    own = [item.data for item in every if item.workload or item.lists_privileges]
    return privileges.listed(own, [item.data for item in every])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    found = list(rows)
    return wording.table(head, found) if found else []


def nodes(match: Mapping[str, Any]) -> str:
    """Return the nodes with the hardware in words."""
    if "all" in match:
        return "every one that a policy selects"
    if "labels" in match:
        labels = (f"{key}={'|'.join(values)}" for key, values in sorted(match["labels"].items()))
        return f"with {wording.listed(labels)}"
    ways = " or ".join(_way(one) for one in match.get("any", ()))
    return ", and ".join(filter(None, (_way(match), ways)))


def _way(way: Mapping[str, Any]) -> str:
    functions = wording.listed(map(_kind, way["pci"])) if "pci" in way else ""
    features = wording.listed(map(_feature, way["features"])) if "features" in way else ""
    return " ".join(filter(None, (functions, features and f"with {features}")))


def _feature(feature: Mapping[str, Any]) -> str:
    return f"{feature['feature']} ({', '.join(feature['matchExpressions'])})"


def _supported(spec: Mapping[str, Any]) -> Iterator[str]:
    if "supports" in spec:
        supported = spec["supports"]
        kernels = wording.listed(version.rstrip(".") for version in supported["kernels"])
        yield f"systems: {wording.listed(supported['systems'])}"
        yield f"kernels: {kernels}, but not those of {supported['refused'].rstrip('.')}"


def _kind(kind: Mapping[str, Any]) -> str:
    ids = [*kind.get("devices", ()), *kind.get("virtual", ())]
    classes = [f"class {name}" for name in kind.get("classes", ())]
    return f"{kind['kind']} (PCI vendor {kind['vendor']}, {wording.listed([*ids, *classes])})"


def excluded(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each list of parameters that exclude each other."""
    return (f"at most one is set: {wording.listed(own)}" for own in spec.get("exclusive", ()))


def parameters(spec: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the name, the type, the default and the meaning of each parameter."""
    stated = spec.get("parameters", {})
    for name, schema in stated.get("properties", {}).items():
        required = "required" if name in stated.get("required", ()) else "-"
        default = canonical.dump_json(schema["default"]) if "default" in schema else required
        yield name, type_of(schema), default, str(schema.get("description", ""))


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a parameter in words."""
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "minimum" in schema or "maximum" in schema:
        return f"{schema['type']} {schema.get('minimum', '')}..{schema.get('maximum', '')}"
    if schema["type"] == "array":
        return f"list of {type_of(schema['items'])}"
    if schema["type"] == "object" and "additionalProperties" in schema:
        return f"map to {type_of(schema['additionalProperties'])}"
    return str(schema["type"])


def references(spec: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the name and the reference of each image."""
    for name, parts in device_policy.images(spec).items():
        usual = {"repository": release.REPOSITORY, "version": "latest"}
        yield name, images.reference({**usual, **parts})


def modules(spec: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the name of each kernel module, its parameters, the modules that it replaces, and what else holds of it."""
    for module in spec.get("driver", {}).get("modules", ()):
        words = ("optional", module.get("optional")), ("network", module.get("network"))
        yield (
            module["name"],
            ", ".join(module.get("parameters", ())) or "-",
            ", ".join(module.get("replaces", ())) or "-",
            ", ".join(word for word, holds in words if holds),
        )


def resources(spec: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the name of each resource, its class and its devices, or who else offers it."""
    for resource in spec.get("devicePlugin", {}).get("resources", ()):
        paths = [path["path"] for group in resource.get("groups", ()) for path in group["paths"]]
        devices = str(resource.get("count", "")) or ", ".join(paths) or resource.get("kind", "")
        yield resource["name"], resource["class"], devices
    for program in spec.get("programs", ()):
        yield from ((offered, "-", f"offered by {program['name']}") for offered in program.get("offers", ()))
    for name, number in spec["match"].get("extended", {}).items():
        yield name, "-", f"counted by NFD: {number}"
