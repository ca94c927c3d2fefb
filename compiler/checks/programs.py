"""Rules for what the texts of a recipe refer to, and for its programs: what the frame refuses of their pods."""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

from compiler import keywords, wording
from compiler.checks import admission, frame, host_paths, lists, pods, resources
from compiler.diagnostics import Diagnostic, rule, shared_rule
from compiler.formats import documents, globs, references
from compiler.read import device_policy
from compiler.schema import judge, phrases, recipe_schema

Data = Mapping[str, Any]
_Given = Mapping[str, Mapping[str, Any]]
"""The values of a recipe's parameters, for each program that a policy has."""

shared_rule("reference-syntax", "error", "`${` begins a reference such as ${values.name}, in texts that may have one.")
shared_rule("reference-absent", "error", "What a reference stands for has a value wherever its place needs one.")

_FACTS = ("policy.name", "pool.name", "cluster.name", "namespace", "kubeletDir")
_KERNEL = ("kernel.full", "kernel.x", "kernel.y", "kernel.z")
_SYSTEM = ("os.id", "os.version")
_EACH = ("key", "value")
_OF_POLICIES = ("offers", "claims", "disrupts")
"""Fields that are asked for before a cluster is planned, when values of parameters alone are known."""
_EARLY = "Parameters alone are known here: this is asked for before a cluster is planned."
_STACK: Mapping[str | int, str] = {"driver": "RecipeDriver", "devicePlugin": "RecipePlugin"}
"""The parts of a recipe beside its programs in which references stand, and the names of their schemas."""
_WORDS = ("values", "images", "policy", "pool", "cluster", "kernel", "os")
_ITEMS = ("boolean", "integer", "string")
"""The types of what a text can hold."""
_EXAMPLE = {
    "policy.name": "policy",
    "pool.name": "pool",
    "cluster.name": "cluster",
    "namespace": "kae",
    "arch": "amd64",
}
_NAMES = ("name", "image")
_WAIT = "wait-for-driver"
_OURS = ("driver-run", "driver-options")
"""The container and the volumes that the compiler adds to a program that waits for the driver."""


def findings(source: documents.Document, schema: phrases.Schema, *, is_sound: bool = True) -> Iterator[Diagnostic]:
    """Yield the mistakes in the references and programs of a recipe that its schema accepts, whatever the values are.

    What stands in driver and device plugin is judged as what stands in programs. `is_sound` is False where the schemas
    of parameters have mistakes: what fits a field is then not known.
    """
    for path, program in lists.items(("spec",), source.data["spec"], "programs"):
        yield from _names(source, path, program)
        yield from _parts(source, path, program)
        yield from _sources(source, path, program)
        yield from _rights(source, path, program)
    for path, part in _referring(source.data["spec"]):
        yield from _syntax(source, path, part)
        yield from _misspelt(source, path, part)
        yield from _known(source, path, part)
        if is_sound:
            yield from _types(source, path, part, schema)
            yield from _absent(source, path, part, schema)
            yield from _conditions(source, path, part)
    yield from _twice(source)


def _referring(spec: Data) -> Iterator[tuple[documents.Path, Data]]:
    """Yield the parts of a recipe in which references may stand: driver, device plugin and each program."""
    yield from ((("spec", *path), part) for path, part in references.parts(spec))


def _properties(source: documents.Document) -> Mapping[str, Any]:
    found: Mapping[str, Any] = source.data["spec"].get("parameters", {}).get("properties", {})
    return found


def _twice(source: documents.Document) -> Iterator[Diagnostic]:
    spec = source.data["spec"]
    own = [((*path, "name"), one["name"]) for path, one in lists.items(("spec",), spec, "programs")]
    yield from lists.twice(source, own, "The program '{}' is there twice.")


def _names(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """A program has a name of its own, and a driver to wait for where it does."""
    spec, recipe, name = source.data["spec"], source.data["metadata"]["name"], program["name"]
    if name in ("driver", "device", "pool") or f"-{recipe}-{name}".endswith("-device-plugin"):
        yield Diagnostic(
            code="reserved-name",
            span=source.span(*path, "name"),
            message=f"A program of recipe '{recipe}' cannot be named '{name}'.",
            notes=("Objects and labels of other programs have names with it.",),
            hint="Give it another name.",
        )
    if program.get("after") == "driver" and "driver" not in spec:
        message, hint = "The recipe has no driver to wait for.", "Remove 'after'."
        yield Diagnostic(code="recipe-reference", span=source.span(*path, "after"), message=message, hint=hint)


def _parts(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """Yield what the containers and volumes of a program name that is not there, or is there twice."""
    containers = list(_containers(path, program))
    volumes = list(lists.items((*path, "pod"), program["pod"], "volumes"))
    for every, noun, added in ((containers, "container", (_WAIT,)), (volumes, "volume", _OURS)):
        named = [((*at, "name"), one["name"]) for at, one in every]
        yield from lists.twice(source, named, f"The {noun} '{{}}' is there twice.")
        for at, own in named if program.get("after") == "driver" else ():
            if own in added:
                message = f"The compiler adds {noun} '{own}' to the pod."
                yield Diagnostic(code="reserved-name", span=source.span(*at), message=message, hint="Rename it.")
    images, files = tuple(source.data["spec"].get("images", ())), tuple(program.get("files", ()))
    for at, volume in volumes:
        if "files" in volume:
            place = (*at, "files", "name")
            yield from lists.unknown(source, place, volume["files"]["name"], files, "one of 'files'")
    known = [volume["name"] for _, volume in volumes]
    for at, container in containers:
        yield from lists.unknown(source, (*at, "image"), container["image"], images, "an image of the recipe")
        for place, mount in lists.items(at, container, "volumeMounts"):
            yield from lists.unknown(source, (*place, "name"), mount["name"], known, "a volume of the pod")


_VOLUMES = ("hostPath", "emptyDir", "files", "downwardAPI")
_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")


def _sources(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """A volume and a probe have one source each, and a variable no two."""
    for at, volume in lists.items((*path, "pod"), program["pod"], "volumes"):
        yield from _one_of(source, at, volume, _VOLUMES)
    for at, container in _containers(path, program):
        yield from _of_sidecars(source, at, container)
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            if name in container:
                yield from _one_of(source, (*at, name), container[name], _PROBES)
        for place, variable in lists.items(at, container, "env"):
            if {"value", "valueFrom"} <= variable.keys():
                yield from _one_of(source, place, variable, ("value", "valueFrom"))


def _of_sidecars(source: documents.Document, at: documents.Path, container: Data) -> Iterator[Diagnostic]:
    """An init container that ends has neither probes nor hooks, as the API server takes none."""
    is_sidecar = "initContainers" not in at or container.get("restartPolicy") == "Always"
    for name in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        if name in container and not is_sidecar:
            message = f"An init container that ends has no {name}."
            hint = "Remove it, or write restartPolicy: Always, by which the container stays."
            yield Diagnostic(code="invalid-value", span=source.key_span(*at, name), message=message, hint=hint)
    if "restartPolicy" in container and "initContainers" not in at:
        message = "A container has no restartPolicy of its own; those of init containers stay."
        span = source.key_span(*at, "restartPolicy")
        yield Diagnostic(code="invalid-value", span=span, message=message, hint="Remove it.")


def _one_of(source: documents.Document, path: documents.Path, data: Data, names: Sequence[str]) -> Iterator[Diagnostic]:
    found = [name for name in data if name in names]
    if len(found) != 1:
        message = f"Expected exactly one of {wording.listed(names)} in '{wording.dotted(path)}', found "
        message += f"{wording.listed(found) if found else 'none'}."
        yield Diagnostic(code="invalid-value", span=source.span(*path), message=message)


def _containers(path: documents.Path, program: Data) -> Iterator[tuple[documents.Path, Data]]:
    for field in ("initContainers", "containers"):
        yield from lists.items((*path, "pod"), program["pod"], field)


def _places(path: documents.Path, program: Data) -> Iterator[references.Place]:
    return references.places(program, path)


def _syntax(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """Yield each `${` that begins no reference, or stands where none may."""
    for place in _places(path, program):
        for part in references.parsed(place.text):
            if isinstance(part, references.Fault) or (isinstance(part, tuple) and not _is_word(part[0])):
                text = part.shown if isinstance(part, references.Fault) else f"${{{part[0]}}}"
                yield Diagnostic(
                    code="reference-syntax",
                    span=source.span(*place.path),
                    message=f"{wording.quoted(text)} is not a reference.",
                    notes=("A reference is ${…} around a name without spaces, such as ${values.name}.",),
                    hint="Write $${ for a plain ${, as the kubelet and shells read it; $(NAME) needs none.",
                )
    for at, _ in _elsewhere(source, path, program):
        yield Diagnostic(
            code="reference-syntax",
            span=source.span(*at),
            message="No reference stands here.",
            notes=("References are in texts of driver, devicePlugin, pod, files, offers and claims.",),
            hint="Write the value itself, or choose by `when` between several.",
        )
    for at in _keys(path, program):
        yield Diagnostic(
            code="reference-syntax",
            span=source.key_span(*at),
            message="No reference stands in a key of JSON.",
            hint="Write the key itself; a parameter that is a map may stand for all of its entries.",
        )


def _keys(path: documents.Path, program: Data) -> Iterator[documents.Path]:
    """Yield the keys of files' JSON in which a `${` begins something."""
    for volume, declared in program.get("files", {}).items() if "pod" in program else ():
        for file, content in declared.items():
            if isinstance(content, Mapping) and "json" in content:
                yield from _referring_keys((*path, "files", volume, file, "json"), content["json"])


def _referring_keys(path: documents.Path, data: Any) -> Iterator[documents.Path]:
    pairs = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        if isinstance(key, str) and any(not isinstance(part, str) for part in references.parsed(key)):
            yield (*path, key)
        yield from _referring_keys((*path, key), value)


_NEARLY = re.compile(
    r"(?<!\$)\$(?:\(\s*([a-z]+\.[A-Za-z]\w*)\s*\)|([a-z]+\.[A-Za-z]\w*))"
    r"|\{\{-?\s*\.?([A-Za-z]+\.[A-Za-z]\w*)\s*-?\}\}"
)
"""What kubelets, shells and Helm would write for a reference."""


@rule("reference-misspelt", "warning")
def _misspelt(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """What other tools would write for a reference, such as {{ .Values.name }}, is written as ${values.name}."""
    properties, images = _properties(source), source.data["spec"].get("images", {})
    known = [*_FACTS, *_KERNEL, *_SYSTEM, *(f"values.{name}" for name in properties)]
    known += [f"images.{name}" for name in images]
    for place in _places(path, program):
        texts = (part for part in references.parsed(place.text) if isinstance(part, str))
        for found in (found for text in texts for found in _NEARLY.finditer(text)):
            head, _, name = next(filter(None, found.groups())).partition(".")
            head = f"{head.lower()}."
            meant = wording.nearest(name, [each.removeprefix(head) for each in known if each.startswith(head)])
            if meant is not None:
                yield Diagnostic(
                    span=source.span(*place.path),
                    message=f"'{found.group()}' is no reference, and is taken as it stands.",
                    hint=f"Write ${{{head}{meant}}}, if it is meant to be one.",
                )


def _is_word(name: str) -> bool:
    return name in (*_EACH, "arch", "namespace", "kubeletDir") or ("." in name and name.partition(".")[0] in _WORDS)


def _elsewhere(source: documents.Document, path: documents.Path, program: Data) -> Iterator[tuple[documents.Path, str]]:
    """Yield the texts with `${` where no reference may stand."""
    fixed: list[tuple[documents.Path, Any]] = [((*path, name), program.get(name)) for name in ("rules", "clusterRules")]
    is_first = path == next(path for path, _ in _referring(source.data["spec"]))
    fixed += [(("spec", "match"), source.data["spec"]["match"])] if is_first else []
    for at, data in fixed:
        yield from ((place, text) for place, text in references.texts(at, data) if "${" in text)


def _referred(path: documents.Path, program: Data) -> Iterator[tuple[references.Place, str]]:
    """Yield each reference of a program with its place."""
    for place in _places(path, program):
        yield from ((place, name) for name in references.names(place.text) if _is_word(name))


@rule("reference-name", "error")
def _known(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """A reference names something that there is."""
    properties, images = _properties(source), source.data["spec"].get("images", {})
    is_pooled = program.get("per") == "pool"
    named = [*_FACTS, *(f"values.{name}" for name in properties), *(f"images.{name}" for name in images)]
    named += [
        *((*_KERNEL, *_SYSTEM) if is_pooled else ()),
        *(["arch"] if len(program.get("architectures", ())) == 1 else ()),
    ]
    for place, name in _referred(path, program):
        here = [*named, *(_EACH if place.in_each else ())]
        is_early = place.field in _OF_POLICIES or "pod" not in program
        if is_early:
            here = [each for each in named if each.startswith("values.")]
        if name in here:
            continue
        hint, is_late = wording.did_you_mean(name, here), is_early and not name.startswith("values.")
        if name in _KERNEL and not is_late:
            hint = "Write per: pool; the kernel is known in pools of one kernel alone."
        elif name in _SYSTEM and not is_late:
            hint = "Write per: pool; the operating system is known in pools of one alone."
        elif name == "arch" and not is_late:
            hint = "Name exactly one architecture in 'architectures'."
        elif name.startswith("values.") and properties:
            hint = wording.did_you_mean(name.removeprefix("values."), properties) or hint
            hint = hint or f"The parameters are {wording.listed(properties)}."
        message = f"'${{{name}}}' names nothing that {'is known here' if is_late else 'the recipe has'}."
        known = f"Known are {wording.listed(here, most=12)}." if here else "Add it to spec.parameters.properties."
        yield Diagnostic(span=source.span(*place.path), message=message, notes=(_EARLY,) * is_late, hint=hint or known)
    for at, name in _asked(path, program):
        if name not in properties:
            hint = wording.did_you_mean(name, properties) or (
                f"The parameters are {wording.listed(properties)}."
                if properties
                else "Add it to spec.parameters.properties."
            )
            message = f"'{name}' is not a parameter of the recipe."
            yield Diagnostic(span=source.span(*at), message=message, hint=hint)


def _asked(path: documents.Path, program: Data) -> Iterator[tuple[documents.Path, str]]:
    """Yield the parameters that conditions and `each` name, with their places."""
    for at, condition in references.conditions(program, path):
        if isinstance(condition, Mapping):
            yield from (((*at, name), name) for name in condition)
        elif isinstance(condition, str):
            yield at, str(references.alone(condition)).removeprefix("values.")
    for volume, files in program.get("files", {}).items() if "pod" in program else ():
        for file, content in files.items():
            if isinstance(content, Mapping) and "each" in content:
                name = str(references.alone(content["each"])).removeprefix("values.")
                yield (*path, "files", volume, file, "each"), name


def used(spec: Data) -> frozenset[str]:
    """Return the parameters that the parts of a recipe's spec name anywhere."""
    found = set[str]()
    for path, program in _referring(spec):
        found.update(name.removeprefix("values.") for _, name in _referred(path, program))
        found.update(name for _, name in _asked(path, program))
    return frozenset(found)


@rule("reference-type", "error")
def _types(
    source: documents.Document, path: documents.Path, program: Data, schema: phrases.Schema
) -> Iterator[Diagnostic]:
    """A reference has a value of a type that its place can hold."""
    for place, name in _referred(path, program):
        own = _schema_of(source, place, name)
        wanted = recipe_schema.field(schema, place.path[1:])["type"] if place.is_typed else "string"
        message = "" if own is None else _misfit(place, name, own, wanted)
        if message:
            hint = "Correct one of the types, or write the file as {json: …}, which holds any."
            hint = hint if "pod" in program else "Correct one of the types."
            yield Diagnostic(span=source.span(*place.path), message=message, hint=hint)
    if "pod" in program:
        yield from _files(source, path, program)
        yield from _shells(source, path, program)


def _files(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    properties = _properties(source)
    for volume, files in program.get("files", {}).items():
        for file, content in files.items():
            if isinstance(content, Mapping):
                yield from _file(source, (*path, "files", volume, file), content, properties)


def _misfit(place: references.Place, name: str, own: Mapping[str, Any], wanted: str) -> str:
    """Return why a place of a type cannot hold what a reference stands for; empty where it can."""
    if not place.is_typed:
        is_structure = place.is_json and references.alone(place.text) is not None
        return "" if is_structure or _is_text(own) else f"'{name}' is {phrases.typed(own)}, which no text can hold."
    if references.alone(place.text) is None:
        return "A reference stands alone in this field." if place.field != "port" else ""
    if own["type"] == wanted or (place.field == "port" and own["type"] == "string"):
        return ""  # A port may be named.
    takes = phrases.typed({"type": wanted})
    return f"'{wording.dotted(place.path)}' takes {takes}, and '{name}' is {phrases.typed(own)}."


def _file(
    source: documents.Document, path: documents.Path, content: Data, properties: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    sorts = [name for name in ("text", "json") if name in content]
    if len(sorts) != 1 or ("each" in content and "json" in content):
        message = "A file is a text, {each: …, text: …} or {json: …}."
        yield Diagnostic(span=source.key_span(*path), message=message, hint="Keep one of them.")
    name = str(references.alone(content.get("each", ""))).removeprefix("values.")
    own = properties.get(name)
    if own is not None and "additionalProperties" not in own:
        message = f"'{name}' is no map of values, each of which makes a file."
        yield Diagnostic(
            span=source.span(*path, "each"), message=message, hint="Give it type: object and additionalProperties."
        )


def _schema_of(source: documents.Document, place: references.Place, name: str) -> Mapping[str, Any] | None:
    """Return the schema of what a reference stands for; None where it is a text in any case."""
    properties = _properties(source)
    if name == "value" and place.in_each:
        file = source.value(place.path if isinstance(source.value(place.path), Mapping) else place.path[:-1])
        each = properties.get(str(references.alone(file["each"])).removeprefix("values."), {})
        inner = each.get("additionalProperties")
        return inner if isinstance(inner, Mapping) else None
    found = properties.get(name.removeprefix("values.")) if name.startswith("values.") else None
    if found is None and place.is_typed and "." in name:
        return {"type": "string"}
    return found if isinstance(found, Mapping) and isinstance(found.get("type"), str) else None


def _is_text(schema: Mapping[str, Any]) -> bool:
    if schema["type"] == "array":
        return schema.get("items", {}).get("type") in _ITEMS
    return schema["type"] in _ITEMS


def _shells(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """A shell reads no text of a policy as a part of its program."""
    properties = _properties(source)
    for words in _commands(path, program):
        shell = reads = False
        for at, text in words:
            referred = list(references.names(text))
            free = [name for name in referred if reads and _is_free(properties, name)]
            if free:
                yield Diagnostic(
                    span=source.span(*at),
                    message=f"A shell would read '${{{free[0]}}}' as a part of its program.",
                    hint="Put it into a variable of 'env', and write \"$NAME\" here; or give it an enum.",
                )
            known = [text, *(str(one) for name in referred for one in _enum(properties, name))]
            reads = reads or any(frame.is_flag(word, of_shell=shell) for word in known)
            shell = shell or any(map(frame.is_shell, known))


def _commands(path: documents.Path, program: Data) -> Iterator[Iterator[tuple[documents.Path, str]]]:
    """Yield the words of each command of a program: of containers, of probes and of hooks; conditions are none."""
    for at, container in _containers(path, program):
        fields = [(field,) for field in ("command", "args")]
        yield _words(at, container, fields)
        for field in ("livenessProbe", "readinessProbe", "startupProbe"):
            yield _words(at, container, [(field, "exec", "command")])
        for hook in ("postStart", "preStop"):
            yield _words(at, container, [("lifecycle", hook, "exec", "command")])


def _words(
    at: documents.Path, container: Data, fields: Iterable[tuple[str, ...]]
) -> Iterator[tuple[documents.Path, str]]:
    for field in fields:
        words = functools.reduce(lambda data, key: data.get(key) or {}, field, container)
        found = references.texts((*at, *field), words)
        yield from ((place, text) for place, text in found if place[-1] != "when")


def _enum(properties: Mapping[str, Any], name: str) -> Sequence[Any]:
    own = properties.get(name.removeprefix("values."), {})
    return (*own.get("enum", ()), *own.get("items", {}).get("enum", ()))


def _is_free(properties: Mapping[str, Any], name: str) -> bool:
    """Return whether a policy may give any text for a parameter."""
    own = properties.get(name.removeprefix("values."), {}) if name.startswith("values.") else {}
    own = own.get("items", {}) if own.get("type") == "array" else own
    return own.get("type") == "string" and "enum" not in own and "pattern" not in own


def _absent(
    source: documents.Document, path: documents.Path, program: Data, schema: phrases.Schema
) -> Iterator[Diagnostic]:
    """An entry that a pod needs has a value with every policy."""
    for place, name in _referred(path, program):
        own = name.removeprefix("values.")
        # Tokens need a count, and the schema of a resource does not know its class.
        is_needed = place.field == "count" or path_is_needed(schema, place.path[1:])
        if not name.startswith("values.") or own in place.demanded or not is_needed:
            continue
        if own in _properties(source) and _may_be_absent(source, own):
            yield Diagnostic(
                code="reference-absent",
                span=source.span(*place.path),
                message=f"'{wording.dotted(place.path)}' has no value where a policy leaves out '{own}'.",
                hint=f"Give '{own}' a default, or write `when: {{…}}` that asks for it beside the entry or above.",
            )


def _may_be_absent(source: documents.Document, name: str) -> bool:
    own = _properties(source)[name]
    required = source.data["spec"].get("parameters", {}).get("required", ())
    if own.get("type") == "object" or (own.get("type") == "array" and own.get("minItems", 0) < 1):
        return True
    return "default" not in own and name not in required


def path_is_needed(schema: phrases.Schema, path: documents.Path) -> bool:
    """Return whether a value of a recipe's spec is one that the object around it has to have."""
    found = phrases.resolved(schema["properties"]["spec"], schema)
    needed = False
    for step in path:
        if isinstance(step, int):
            found, needed = phrases.resolved(found.get("items", {}), schema), False
            continue
        fields = found.get("properties", {})
        is_choice = {"when", "value"} <= fields.keys() and step == "value" and "name" not in fields
        needed = needed if is_choice else step in found.get("required", ())
        inner = fields.get(step, found.get("additionalProperties", {}))
        found = phrases.resolved(inner if isinstance(inner, Mapping) else {}, schema)
    return needed


def _conditions(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """A condition compares a parameter with values that it may have."""
    properties = _properties(source)
    for at, condition in references.conditions(program, path):
        for name, wanted in condition.items() if isinstance(condition, Mapping) else ():
            if name not in properties or properties[name].get("type") not in (*_ITEMS, "array"):
                continue
            allowed = judge.quick(recipe_schema.closed(properties[name]))
            for value in wanted if isinstance(wanted, list) else [wanted]:
                if value is not None and not allowed.is_valid(value):
                    message = f"{wording.quoted(value)} is not a value that '{name}' may have."
                    near = wording.did_you_mean(value, properties[name].get("enum", ()))
                    hint = near or f"Write {phrases.expected(properties[name])}, or null where it is not set."
                    yield Diagnostic(code="invalid-value", span=source.span(*at, name), message=message, hint=hint)


def _rights(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    for field in ("rules", "clusterRules"):
        may = program.get("nodeStatus", False)
        for refusal in frame.of_rules((*path, field), program.get(field, ()), writes_status=may):
            yield frame.finding(source, refusal)


def filled(
    source: documents.Document,
    schema: phrases.Schema,
    spec: Data = MappingProxyType({}),
    note: str = "",
) -> Iterator[Diagnostic]:
    """Yield the mistakes in the pods of a recipe with the values of a policy's spec, or with its defaults."""
    notes, kubelet = (note,) if note else (), spec.get("kubeletDir", host_paths.KUBELET)
    done: list[tuple[str, Mapping[str, Any]]] = []
    for given in _variants(spec, source):
        own = [pair for pair in given.items() if pair not in done]
        done += own
        yield from _offered_twice(source, given, notes) if own else ()
        for path, program in lists.items(("spec",), source.data["spec"], "programs"):
            if program["name"] in dict(own):
                yield from _with_values(source, schema, (path, program), given[program["name"]], (kubelet, notes))


def _offered_twice(source: documents.Document, given: _Given, notes: tuple[str, ...]) -> Iterator[Diagnostic]:
    """A resource is offered by one program of a recipe, or by its device plugin, or counted by NFD."""
    spec = source.data["spec"]
    counted = spec["match"].get("extended", ())
    seen = [(one["name"], "the device plugin") for one in spec.get("devicePlugin", {}).get("resources", ())]
    for path, program in lists.items(("spec",), spec, "programs"):
        own = []
        scope = {f"values.{name}": value for name, value in given.get(program["name"], {}).items()}
        runs = program["name"] in given and references.holds(program.get("when", True), scope)
        for index, text in enumerate(program.get("offers", ()) if runs else ()):
            name = references.text(text, scope)
            if name is references.ABSENT:
                continue
            holder = next((holder for other, holder in seen if globs.share_path(name, other)), None)
            # A glob is what a program may offer: beside one, NFD may count one of the names.
            holder = "NFD (match.extended)" if holder is None and name in counted else holder
            if holder is not None:
                yield Diagnostic(
                    code="duplicate-name",
                    span=source.span(*path, "offers", index),
                    message=f"'{name}' is offered by {holder}, too.",
                    notes=("A kubelet keeps one of two that register a resource.", *notes),
                    hint="Keep one of the two, or choose by `when` between them.",
                )
            own.append((name, f"program '{program['name']}'"))
        seen += own


def _with_values(
    source: documents.Document,
    schema: phrases.Schema,
    declared: tuple[documents.Path, Data],
    given: Mapping[str, Any],
    told: tuple[str, tuple[str, ...]],
) -> Iterator[Diagnostic]:
    (path, program), (kubelet, notes) = declared, told
    images = {f"images.{name}": f"registry.example/{name}:1" for name in source.data["spec"].get("images", {})}
    kernel = dict(zip(_KERNEL, ("6.6.0-1.x86_64", "6", "6", "0"), strict=True))
    values = {f"values.{name}": value for name, value in given.items()}
    scope = {
        **_EXAMPLE,
        "os.id": "openEuler",
        "os.version": "24.03",
        **kernel,
        **images,
        "kubeletDir": kubelet,
        **values,
    }
    if not references.holds(program.get("when", True), scope):
        return
    pod = references.filled(program["pod"], scope)
    yield from _whole(source, path, program, pod, notes)
    if pod is references.ABSENT or "containers" not in pod:
        return
    at: documents.Path = (*path, "pod")

    def origin(place: documents.Path) -> documents.Path:
        return (*at, *references.origin(program["pod"], place, scope))

    own = _pods(_Same(schema), "ProgramPod")
    if not own.quick.is_valid(pod):
        for error in judge.thorough()(own.schema).iter_errors(pod):
            yield _unfit(source, origin(tuple(error.absolute_path)), error, notes)
        return
    refused = list(frame.of_pod(pod, kubelet))
    for place, message, facts, hint in refused:
        yield frame.finding(source, (origin(place), message, facts, hint), *notes)
    places = [place for place, *_ in refused]
    for fault in (fault for fault in pods.faults(pod) if fault.path not in places):
        yield Diagnostic(
            code="invalid-value",
            span=source.span(*origin(fault.path)),
            message=fault.message,
            notes=(*fault.notes, *notes),
            hint=fault.hint,
        )
    yield from _registered(source, path, program, scope, notes)
    yield from _sized(source, path, program, scope, notes)


class _Same:
    """A schema as a key: it is the same for all recipes and policies of a call."""

    def __init__(self, schema: phrases.Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schema is other.schema


class _Pods:
    """The schema of pods, or of another part of a recipe, and its compiled validator."""

    def __init__(self, schema: phrases.Schema, name: str) -> None:
        # A text with references has any form, and one that is filled its own.
        own = json.loads(json.dumps(schema["$defs"]).replace(json.dumps(keywords.WITH_REFERENCE)[1:-1], ""))
        self.schema = {**own[name], "$defs": own}
        self.quick = judge.quick(self.schema)


@functools.lru_cache(maxsize=3)
def _pods(key: _Same, name: str) -> _Pods:
    return _Pods(key.schema, name)


def stack(
    source: documents.Document, schema: phrases.Schema, given: Mapping[str, Any], note: str = ""
) -> Iterator[Diagnostic]:
    """Yield where the texts of a recipe's driver and device plugin do not fit their fields with these values."""
    made, scope = device_policy.filled(source, given), device_policy.scope(source, given)
    for path, part in references.parts(source.data["spec"]):
        name = _STACK.get(path[0])
        if name is None or not any("${" in place.text for place in references.places(part, path)):
            continue
        own = _pods(_Same(schema), name)
        if not own.quick.is_valid(made[str(path[0])]):
            for error in judge.thorough()(own.schema).iter_errors(made[str(path[0])]):
                place = ("spec", *references.origin(source.data["spec"], (*path, *error.absolute_path), scope))
                yield _unfit(source, place, error, (note,) if note else ())


def _unfit(source: documents.Document, path: documents.Path, error: Any, notes: tuple[str, ...]) -> Diagnostic:
    value = error.instance
    whose = "pod" if path[1] == "programs" else "recipe"
    message = f"{wording.quoted(value) if isinstance(value, str) else wording.cut(value)} is not "
    message += f"{phrases.expected(error.schema)}." if "type" in error.schema else f"what the {whose} can have here."
    if error.validator == "required":
        lacking = [name for name in error.validator_value if name not in value]
        message = f"The {whose} lacks {wording.listed(map(wording.quoted, lacking))} here with these values."
    return Diagnostic(
        code="invalid-value",
        span=source.span(*path),
        message=message,
        notes=notes,
        hint="Narrow the parameter by an enum, a pattern or bounds, or change its value.",
    )


@rule("program-incomplete", "error")
def _whole(
    source: documents.Document, path: documents.Path, program: Data, pod: Any, notes: tuple[str, ...]
) -> Iterator[Diagnostic]:
    """With any values, a program that runs has a container, and each of its mounts a volume."""
    held = {} if pod is references.ABSENT else pod
    if not held.get("containers"):
        message = f"No container is left of program '{program['name']}'."
        hint = "Put a `when` at the program where it shall not run, and leave a container otherwise."
        yield Diagnostic(span=source.key_span(*path, "pod", "containers"), message=message, notes=notes, hint=hint)
    volumes = {volume["name"] for volume in held.get("volumes", ())}
    for at, container in _containers(path, program):
        present = [one for field in ("initContainers", "containers") for one in held.get(field, ())]
        own = (one for one in present if one["name"] == container["name"])
        mounted = {mount["name"] for one in own for mount in one.get("volumeMounts", ())}
        for place, mount in lists.items(at, container, "volumeMounts"):
            if mount["name"] in mounted - volumes:
                message = f"The volume '{mount['name']}' is not there, and container '{container['name']}' mounts it."
                hint = "Write the same `when` beside both."
                yield Diagnostic(span=source.span(*place, "name"), message=message, notes=notes, hint=hint)


def _registered(
    source: documents.Document,
    path: documents.Path,
    program: Data,
    scope: references.Scope,
    notes: tuple[str, ...],
) -> Iterator[Diagnostic]:
    """What a program offers is a resource with a domain, and what it claims a path."""
    for field, pattern, words in (
        ("offers", _OFFER, "a resource such as example.com/npu, or a glob of them"),
        ("claims", _CLAIM, "path: or socket: with an absolute path, or a resource"),
    ):
        for index, text in enumerate(program.get(field, ())):
            value = references.text(text, scope)
            if value is references.ABSENT:
                continue
            if field == "offers" and resources.is_taken(value):
                message, hint = f"Kubernetes takes no resource '{value}' from a device plugin.", resources.OWN_DOMAIN
            elif not judge.is_found(pattern, value):
                message, hint = f"{wording.quoted(value)} is not {words}.", "Correct it."
            else:
                continue
            yield Diagnostic(
                code="invalid-value", span=source.span(*path, field, index), message=message, notes=notes, hint=hint
            )


_OFFER = (
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/"
    r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9*])?|\*)$"
)
_CLAIM = r"^((path|socket):(/[A-Za-z0-9_.-]+)+|[a-z0-9.-]+/[A-Za-z0-9_.-]+)$"
_MOST_FILES = 200 * 1024
_FILE = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"


def _sized(
    source: documents.Document,
    path: documents.Path,
    program: Data,
    scope: references.Scope,
    notes: tuple[str, ...],
) -> Iterator[Diagnostic]:
    """The files of a pod are annotations, of which it may have 256 KiB, and each has a name that leads nowhere."""
    total = 0
    for volume, declared in program.get("files", {}).items():
        first: dict[str, str] = {}
        for entry, name, text in references.each_file(declared, scope):
            total += len(name.encode()) + len(text.encode())
            if name in first:
                yield Diagnostic(
                    code="duplicate-name",
                    span=source.key_span(*path, "files", volume, entry),
                    message=f"The file {wording.quoted(name)} is there twice: one of its texts would be lost.",
                    notes=((f"Another is of {wording.quoted(first[name])}.",) if first[name] != entry else ()) + notes,
                    hint="Give the files other names, such as with a folder's name before ${key}, or narrow the keys.",
                )
            first.setdefault(name, entry)
        for name in first:
            if not judge.is_found(_FILE, name):
                message = f"{wording.quoted(name)} is not a name of a file: letters, digits, '.', '_' and '-'."
                yield Diagnostic(
                    code="invalid-value",
                    span=source.key_span(*path, "files", volume),
                    message=message,
                    notes=notes,
                    hint="Correct the key, or the keys of the parameter that it names.",
                )
    if total > _MOST_FILES:
        message = f"The files of program '{program['name']}' have {total} bytes, and a pod may have {_MOST_FILES}."
        hint = "Shorten them: they are annotations of the pod."
        yield Diagnostic(
            code="invalid-value", span=source.key_span(*path, "files"), message=message, notes=notes, hint=hint
        )


def of_policy(document: documents.Document, recipe: documents.Document, schema: phrases.Schema) -> Iterator[Diagnostic]:
    """Yield the mistakes in the programs of a policy's recipe with its values, and with those of its layers."""
    spec = document.data["spec"]
    name = document.data["metadata"]["name"]
    note = f"This is so with the values of policy '{name}'."
    kubelet = spec.get("kubeletDir", host_paths.KUBELET)
    yield from filled(recipe, schema, spec, note)
    yield from claimed(document, recipe)
    if kubelet != host_paths.KUBELET:
        yield from admission.mounts(recipe, kubelet)


@rule("parameter-claimed", "error")
def claimed(document: documents.Document, recipe: documents.Document) -> Iterator[Diagnostic]:
    """A policy sets no parameter of a module that a program of its recipe claims, and so sets itself."""
    spec = document.data["spec"]
    path: documents.Path = ("spec", "driver", "moduleParameters")
    stated = spec.get("driver", {}).get("moduleParameters", {})
    given = {f"path:/sys/module/{one}/parameters/{name}": (one, name) for one in stated for name in stated[one]}
    for program in recipe.data["spec"].get("programs", ()) if given else ():
        every = (own[program["name"]] for own in _variants(spec, recipe) if program["name"] in own)
        scopes = [{f"values.{name}": value for name, value in own.items()} for own in every]
        running = [scope for scope in scopes if references.holds(program.get("when", True), scope)]
        own = {claim for scope in running for claim in references.listed(program.get("claims", ()), scope)}
        for claim in sorted(own & given.keys()):
            module, name = given[claim]
            yield Diagnostic(
                span=document.key_span(*path, module, name),
                message=f"Program '{program['name']}' of recipe '{recipe.data['metadata']['name']}' sets parameter "
                f"'{name}' of module '{module}' itself.",
                notes=("The module would have whichever value is written last.",),
                hint="Leave the parameter out, or have the policy do without the program.",
            )


def _variants(spec: Data, recipe: documents.Document) -> Iterator[_Given]:
    """Yield the values that programs have together, for each mapping with each group; a policy may do without some."""
    base = device_policy.values(recipe, spec.get("values", {}))
    stated, rollout = spec.get("programs", {}), spec.get("rollout", {})
    every = recipe.data["spec"].get("programs", ())
    kept = [one for one in every if stated.get(one["name"], {}).get("enabled", True)]
    groups: Sequence[Data] = [{}, *rollout.get("waves", ()), *rollout.get("frozen", ())]
    for mapping, group in product(spec.get("kernelMappings") or [{}], groups):
        layered = {**base, **mapping.get("values", {}), **group.get("values", {})}
        yield {one["name"]: layered if one.get("per") == "pool" else base for one in kept}
