"""Rules for what the texts of a recipe refer to: values, images, and facts of pools, in driver, plugin and programs."""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler import wording
from compiler.checks import frame, lists
from compiler.diagnostics import Diagnostic, rule, shared_rule
from compiler.formats import documents
from compiler.formats import references as texts
from compiler.schema import judge, phrases, recipe_schema

Data = Mapping[str, Any]

shared_rule("reference-syntax", "error", "`${` begins a reference such as ${values.name}, in texts that may have one.")
shared_rule("reference-absent", "error", "What a reference stands for has a value wherever its place needs one.")

_FACTS = ("policy.name", "pool.name", "cluster.name", "namespace", "kubeletDir")
KERNEL = ("kernel.full", "kernel.x", "kernel.y", "kernel.z")
_SYSTEM = ("os.id", "os.version")
_EACH = ("key", "value")
_OF_POLICIES = ("offers", "claims", "disrupts")
"""Fields that are asked for before a cluster is planned, when values of parameters alone are known."""
_EARLY = "Parameters alone are known here: this is asked for before a cluster is planned."
_WORDS = ("values", "images", "policy", "pool", "cluster", "kernel", "os")
_ITEMS = ("boolean", "integer", "string")
"""The types of what a text can hold."""


def findings(source: documents.Document, schema: phrases.Schema, *, is_sound: bool = True) -> Iterator[Diagnostic]:
    """Yield the mistakes in the references of a recipe that its schema accepts, whatever the values are.

    What stands in driver and device plugin is judged as what stands in programs. `is_sound` is False where the schemas
    of parameters have mistakes: what fits a field is then not known.
    """
    for path, part in _referring(source.data["spec"]):
        yield from _syntax(source, path, part)
        yield from _misspelt(source, path, part)
        yield from _known(source, path, part)
        if is_sound:
            yield from _types(source, path, part, schema)
            yield from _absent(source, path, part, schema)
            yield from _conditions(source, path, part)


def _referring(spec: Data) -> Iterator[tuple[documents.Path, Data]]:
    """Yield the parts of a recipe in which references may stand: driver, device plugin and each program."""
    yield from ((("spec", *path), part) for path, part in texts.parts(spec))


def _properties(source: documents.Document) -> Mapping[str, Any]:
    found: Mapping[str, Any] = source.data["spec"].get("parameters", {}).get("properties", {})
    return found


def _syntax(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """Yield each `${` that begins no reference, or stands where none may."""
    for place in texts.places(program, path):
        for part in texts.parsed(place.text):
            if isinstance(part, texts.Fault) or (isinstance(part, tuple) and not _is_word(part[0])):
                text = part.shown if isinstance(part, texts.Fault) else f"${{{part[0]}}}"
                meant = "" if isinstance(part, texts.Fault) else _meant(source, part[0])
                yield Diagnostic(
                    code="reference-syntax",
                    span=source.span(*place.path),
                    message=f"{wording.quoted(text)} is not a reference.",
                    notes=("A reference is ${…} around a name without spaces, such as ${values.name}.",),
                    hint=meant or "Write $${ for a plain ${, as the kubelet and shells read it; $(NAME) needs none.",
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


def _meant(source: documents.Document, name: str) -> str:
    """Return the hint on a word that lacks its first part, such as ${pulse} for ${values.pulse}; empty for others."""
    heads = {"values": _properties(source), "images": source.data["spec"].get("images", {})}
    whole = [f"{head}.{own}" for head, known in heads.items() for own in known if own == name]
    if name in ("image", "images") and len(heads["images"]) == 1:
        whole = [f"images.{own}" for own in heads["images"]]
    return f"Did you mean '${{{whole[0]}}}'?" if whole else ""


def _keys(path: documents.Path, program: Data) -> Iterator[documents.Path]:
    """Yield the keys of files' JSON in which a `${` begins something."""
    for volume, declared in program.get("files", {}).items() if "pod" in program else ():
        for file, content in declared.items():
            if isinstance(content, Mapping) and "json" in content:
                yield from _referring_keys((*path, "files", volume, file, "json"), content["json"])


def _referring_keys(path: documents.Path, data: Any) -> Iterator[documents.Path]:
    pairs = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        if isinstance(key, str) and any(not isinstance(part, str) for part in texts.parsed(key)):
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
    known = [*_FACTS, *KERNEL, *_SYSTEM, *(f"values.{name}" for name in properties)]
    known += [f"images.{name}" for name in images]
    for place in texts.places(program, path):
        plain = (part for part in texts.parsed(place.text) if isinstance(part, str))
        for found in (found for text in plain for found in _NEARLY.finditer(text)):
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
        yield from ((place, text) for place, text in texts.texts(at, data) if "${" in text)


def _referred(path: documents.Path, program: Data) -> Iterator[tuple[texts.Place, str]]:
    """Yield each reference of a program with its place."""
    for place in texts.places(program, path):
        yield from ((place, name) for name in texts.names(place.text) if _is_word(name))


@rule("reference-name", "error")
def _known(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """A reference names something that there is."""
    properties, images = _properties(source), source.data["spec"].get("images", {})
    is_pooled = program.get("per") == "pool"
    named = [*_FACTS, *(f"values.{name}" for name in properties), *(f"images.{name}" for name in images)]
    named += [
        *((*KERNEL, *_SYSTEM) if is_pooled else ()),
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
        if name in KERNEL and not is_late:
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
    for at, condition in texts.conditions(program, path):
        if isinstance(condition, Mapping):
            yield from (((*at, name), name) for name in condition)
        elif isinstance(condition, str):
            yield at, str(texts.alone(condition)).removeprefix("values.")
    for volume, files in program.get("files", {}).items() if "pod" in program else ():
        for file, content in files.items():
            if isinstance(content, Mapping) and "each" in content:
                name = str(texts.alone(content["each"])).removeprefix("values.")
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


def _misfit(place: texts.Place, name: str, own: Mapping[str, Any], wanted: str) -> str:
    """Return why a place of a type cannot hold what a reference stands for; empty where it can."""
    if not place.is_typed:
        is_structure = place.is_json and texts.alone(place.text) is not None
        return "" if is_structure or _is_text(own) else f"'{name}' is {phrases.typed(own)}, which no text can hold."
    if texts.alone(place.text) is None:
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
    name = str(texts.alone(content.get("each", ""))).removeprefix("values.")
    own = properties.get(name)
    if own is not None and "additionalProperties" not in own:
        message = f"'{name}' is no map of values, each of which makes a file."
        yield Diagnostic(
            span=source.span(*path, "each"), message=message, hint="Give it type: object and additionalProperties."
        )


def _schema_of(source: documents.Document, place: texts.Place, name: str) -> Mapping[str, Any] | None:
    """Return the schema of what a reference stands for; None where it is a text in any case."""
    properties = _properties(source)
    if name == "value" and place.in_each:
        file = source.value(place.path if isinstance(source.value(place.path), Mapping) else place.path[:-1])
        each = properties.get(str(texts.alone(file["each"])).removeprefix("values."), {})
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
            referred = list(texts.names(text))
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
    for at, container in lists.containers((*path, "pod"), program["pod"]):
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
        found = texts.texts((*at, *field), words)
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
        is_needed = place.field == "count" or _is_needed_at(schema, place.path[1:])
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


def _is_needed_at(schema: phrases.Schema, path: documents.Path) -> bool:
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
    for at, condition in texts.conditions(program, path):
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
