"""The validator's errors in plain words, each mistake once, with a hint: what to write instead."""

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from compiler import diagnostics, keywords, wording
from compiler.formats import canonical, documents
from compiler.schema import judge, phrases

diagnostics.shared_rule("missing-field", "error", "A document has every field that its schema requires.")
diagnostics.shared_rule("wrong-type", "error", "A value has the type that its schema states.")
diagnostics.shared_rule("invalid-value", "error", "A value is one that its schema allows.")
diagnostics.shared_rule("url-credentials", "error", "No URL in a document holds a user's password or token.")

MOST = 50
"""Mistakes of one document that are shown; the next run shows the rest."""

# Of several faults of one value only the first of these is shown: the length of a wrong type does not matter.
_RANKS = (
    "type",
    "const",
    "enum",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "additionalProperties",
    "minProperties",
    "maxProperties",
)


_TEMPLATE = re.compile(r"\{\{|\$\{(?!KERNEL_|DRIVER_|values\.)[A-Za-z_]|\$\(?[A-Z_]{2}")
"""What Helm, envsubst and shells fill in; KERNEL_…, DRIVER_… and values are the compiler's own."""
_RENDER = "Write the value itself: nothing fills in a template or a variable here. Run Helm or envsubst before."
_DURATION = re.compile("(?:[0-9]{1,6} ?[a-z]+ ?)*(?:[0-9]{1,6})?", re.ASCII | re.IGNORECASE)
_UNITS: Mapping[str, int] = MappingProxyType({"d": 86400, "h": 3600, "m": 60, "s": 1})
_UNIT = re.compile("d(?:ays?)?|h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?")
_MOST_DIGITS = 18
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGTPE])(i?)B?", re.IGNORECASE | re.ASCII)
"""An amount of bytes as people write it, such as 128MB, 128 mb and 1GiB."""

_PROCESSORS = re.compile("([0-9]+(?:\\.[0-9]+)?) ?(m|millicores?|millicpus?|cores?|cpus?|vcpus?)", re.ASCII)
"""An amount of processors as people write it, such as 500 m and 2 cores."""

_MOST_FIELDS = 20
"""The most fields that a hint lists."""

_TEMPLATES = ("components", "facts", "templates")
"""Fields of a recipe with templates, which programs stand for."""

_ACCOUNT = "Write rules or clusterRules beside the pod: with one of them it has an account and its token."
_TEXTS = "Write the texts into `files` of the program, and a volume {name: …, files: {name: …}}."
_NONE = "Remove it: a program has no Secret and no volume of others, but hostPath, emptyDir, files and downwardAPI."
_COMPILER = "Remove it: the compiler decides it."
_OWNED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("affinity", "nodeSelector", "nodeName"),
            "Remove it: `match` and the nodeSelector of a policy choose the nodes, `architectures` those of an image.",
        ),
        "tolerations": "Write daemonSets.tolerations in the policy.",
        "priorityClassName": "Write daemonSets.priorityClassName in the policy.",
        "imagePullPolicy": "Write pullPolicy in the policy.",
        "imagePullSecrets": "Write pullSecrets in the policy.",
        **dict.fromkeys(("labels", "annotations", "metadata"), "Write daemonSets.labels in the policy."),
        **dict.fromkeys(
            ("updateStrategy", "maxUnavailable", "maxSurge", "minReadySeconds"),
            "Write programs.NAME.maxUnavailable in the policy; a pod goes before its successor comes.",
        ),
        **dict.fromkeys(("serviceAccountName", "serviceAccount", "automountServiceAccountToken"), _ACCOUNT),
        **dict.fromkeys(("configMap", "configMapKeyRef", "configMapRef"), _TEXTS),
        **dict.fromkeys(
            ("secret", "secretKeyRef", "envFrom", "projected", "csi", "ephemeral", "persistentVolumeClaim"), _NONE
        ),
        **dict.fromkeys(
            ("hostAliases", "hostUsers", "hostPort", "host", "procMount", "sysctls", "resourceClaims"), _COMPILER
        ),
        **dict.fromkeys(("enableServiceLinks", "schedulerName", "preemptionPolicy", "restartPolicy"), _COMPILER),
    }
)
"""Fields of a pod that a program does not have, and what to write instead."""

_BOOLEANS: Mapping[str, str] = MappingProxyType(
    {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
)

_SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "canary": ("waves",),
        "environment": ("env",),
        "hosts": ("nodes",),
        "k8sversion": ("kubernetesVersion",),
        "name": ("image",),
        "nodeselector": ("inventorySelector",),
        "pattern": ("regexp",),
        "plugin": ("devicePlugin",),
        "registry": ("repository",),
        "selector": ("nodeSelector", "inventorySelector"),
        "tag": ("version",),
        "version": ("tag",),
    }
)
"""Names that Kubernetes and Helm charts use, in lower case, and the fields that mean the same here."""


class _Reader(msgspec.Struct, frozen=True):
    """A document and the schema of its kind."""

    document: documents.Document
    schema: phrases.Schema

    def owner(self, path: documents.Path) -> str:
        """Return the phrase for the value at a path."""
        return f"'{wording.dotted(path)}'" if path else f"a {self.schema['title']}"

    def diagnostic(self, code: str, fault: "_Fault", message: str, **more: Any) -> diagnostics.Diagnostic:
        """Return a finding at the position of a fault."""
        span = self.document.positions.span(fault.path, key=fault.key)
        return diagnostics.Diagnostic(code=code, span=span, message=message, **more)


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword of a schema that a value or key does not satisfy."""

    keyword: str
    path: documents.Path
    key: bool
    value: Any
    schema: phrases.Schema


def worded(errors: Iterable[Any], document: documents.Document, schema: phrases.Schema) -> list[diagnostics.Diagnostic]:
    """Return the mistakes of a document of a kind with this schema, each once, in the order of its lines."""
    reader = _Reader(document, schema)
    # Several errors can come from one mistake, so more of them are fetched than are shown.
    faults = _distinct([_fault(error) for error in itertools.islice(errors, 4 * MOST)])
    findings = itertools.chain.from_iterable(_findings(fault, reader) for fault in faults)
    shown = list(diagnostics.merged(itertools.islice(findings, 4 * MOST)))
    if len(shown) > MOST:
        note = f"Only {MOST} mistakes of the document are shown."
        return [*shown[: MOST - 1], shown[MOST - 1]._replace(notes=(*shown[MOST - 1].notes, note))]
    return shown


def _fault(error: Any) -> _Fault:
    steps = list(error.absolute_schema_path)
    key = len(steps) > 1 and steps[-2] == "propertyNames"
    path = tuple(error.absolute_path)
    return _Fault(
        keyword=error.validator,
        path=(*path, error.instance) if key else path,
        key=key,
        value=error.instance,
        schema=error.schema,
    )


def _distinct(faults: list[_Fault]) -> list[_Fault]:
    """Return one fault for each value, and one for the fields that it lacks."""
    best: dict[tuple[documents.Path, bool, bool], _Fault] = {}
    for fault in faults:
        subject = (fault.path, fault.key, fault.keyword == "required")
        if subject not in best or _rank(fault) < _rank(best[subject]):
            best[subject] = fault
    return list(best.values())


def _rank(fault: _Fault) -> int:
    return _RANKS.index(fault.keyword) if fault.keyword in _RANKS else len(_RANKS)


def _findings(fault: _Fault, reader: _Reader) -> Iterator[diagnostics.Diagnostic]:
    if fault.keyword == "additionalProperties":
        yield from _unknown_fields(fault, reader)
    elif fault.keyword == "required":
        yield from _missing_fields(fault, reader)
    elif fault.keyword == "type":
        yield _wrong_type(fault, reader)
    else:
        yield _invalid_value(fault, reader)


@diagnostics.rule("unknown-field", "error")
def _unknown_fields(fault: _Fault, reader: _Reader) -> Iterator[diagnostics.Diagnostic]:
    """A document has only the fields of its schema."""
    fields = fault.schema.get("properties", {})
    for name in fault.value:
        if name in fields:
            continue
        hint = _on_owned(name, fault.path, reader.schema) or _hint_on_unknown_field(name, fields, reader.schema)
        field = structs.replace(fault, path=(*fault.path, name), key=True)
        message = f"{wording.quoted(name)} is not a field of {reader.owner(fault.path)}."
        yield reader.diagnostic("unknown-field", field, message, hint=hint)


def _missing_fields(fault: _Fault, reader: _Reader) -> Iterator[diagnostics.Diagnostic]:
    fields = fault.schema["properties"]
    # A misspelt field is reported as an unknown one, with a hint.
    misspelt = {_meant(name, fields) for name in fault.value if name not in fields}
    for name in fault.schema["required"]:
        if name in fault.value or ("additionalProperties" in fault.schema and name in misspelt):
            continue
        field = structs.replace(fault, path=(*fault.path, name))
        message = f"'{wording.dotted(field.path)}' is missing."
        hint = f"Add {name}: {phrases.expected(phrases.resolved(fields[name], reader.schema))}."
        yield reader.diagnostic("missing-field", field, message, hint=hint)


def _wrong_type(fault: _Fault, reader: _Reader) -> diagnostics.Diagnostic:
    if fault.value is None and not fault.key:
        message, hint = f"'{wording.dotted(fault.path)}' has no value.", _hint_on_nothing(fault.path, fault.schema)
        return reader.diagnostic("wrong-type", fault, message, hint=hint)
    where = "as a key" if fault.key else f"in '{wording.dotted(fault.path)}'"
    message = f"Expected {phrases.typed(fault.schema)}, found {phrases.value(fault.value)} {where}."
    finding = reader.diagnostic("wrong-type", fault, message)
    hint = _hint_on_type(fault.value, fault.path, fault.schema, reader.schema, finding.span)
    return finding._replace(hint=hint)


def _invalid_value(fault: _Fault, reader: _Reader) -> diagnostics.Diagnostic:
    schema, value, place = fault.schema, fault.value, f"'{wording.dotted(fault.path)}'"
    code, hint = "invalid-value", ""
    notes: Iterable[str] = ()
    if fault.keyword == "maxProperties" and "properties" not in schema:
        message = f"{place} has {len(value)} keys, but may have at most {schema['maxProperties']}."
        hint = "Remove some of them."
    elif fault.keyword == "minProperties" and "maxProperties" not in schema:
        message = f"{place} is empty."
        hint = f"Give it at least one of {wording.listed(schema['properties'])}." if "properties" in schema else ""
    elif fault.keyword in ("minProperties", "maxProperties"):
        message = (
            f"Expected exactly one of {wording.listed(schema['properties'])} in {reader.owner(fault.path)}, "
            f"found {wording.listed(map(wording.cut, value))}."
        )
    elif fault.keyword == "minItems" and value:
        message = f"{place} has {len(value)} items, but needs at least {schema['minItems']}."
    elif fault.keyword == "minItems":
        message, hint = f"{place} is empty.", "Remove the key, or give the list an item."
    elif keywords.CREDENTIALS in schema and wording.without_credentials(value) != value:
        message = f"The URL in {place} holds credentials, and everyone who reads git sees them."
        code, hint = "url-credentials", schema[keywords.CREDENTIALS]
    elif fault.keyword == "maxItems":
        message = f"{place} has {len(value)} items, but may have at most {schema['maxItems']}."
        is_selector = fault.path[-1] == "values"
        hint = "Give these nodes a label in common, and select by it." if is_selector else "Shorten it."
    else:
        quoted = wording.quoted(value) if isinstance(value, str) else wording.cut(value)
        message, hint = f"{quoted} is not {phrases.expected(schema)}.", _hint_on_value(value, schema, fault.path)
        if not hint and reader.schema.get("title") == "Recipe":
            hint = _of_recipe(value, fault.path)
        notes = _notes(fault)
    return reader.diagnostic(code, fault, message, notes=tuple(notes), hint=hint)


def _notes(fault: _Fault) -> Iterator[str]:
    if fault.keyword == "maxLength":
        yield f"It is {len(fault.value)} characters long."
    if fault.keyword == "pattern" and " " in fault.value:
        yield "It holds a space." if fault.value.count(" ") == 1 else "It holds spaces."


def _meant(name: str, fields: Iterable[str]) -> str | None:
    """Return the field of a mapping that an unknown one was probably meant to be."""
    known = tuple(fields)
    synonyms = (field for field in _SYNONYMS.get(str(name).lower(), ()) if field in known)
    return wording.nearest(name, known) or next(synonyms, None)


def _on_owned(name: str, path: documents.Path, document: phrases.Schema) -> str:
    """Return what to write instead of a field of a pod that is not the recipe's."""
    is_of_program = document.get("title") == "Recipe" and path[:2] == ("spec", "programs")
    return _OWNED.get(name, "") if is_of_program else ""


def _hint_on_unknown_field(name: str, fields: Iterable[str], document: phrases.Schema) -> str:
    """Return the field to write instead of an unknown one: of the same mapping, or of another one of the document."""
    if document.get("title") == "Recipe" and name in _TEMPLATES:
        return "Write the pod itself into `programs`: there are no templates."
    known = tuple(fields)
    if near := _meant(name, known):
        return f"Did you mean '{near}'?"
    elsewhere = [path for path in _paths(document) if path[-1] == name]
    if len(elsewhere) == 1:
        return f"Did you mean '{wording.dotted(elsewhere[0])}'?"
    if len(known) > _MOST_FIELDS:
        return "Remove it."
    return f"Its fields are {wording.listed(known)}." if known else "Write {}: it has no fields."


def _paths(document: phrases.Schema) -> Iterator[documents.Path]:
    """Yield the path of every field that lies in no list."""
    pending: list[tuple[documents.Path, phrases.Schema]] = [((), document)]
    for path, schema in pending:  # The loop appends to it.
        for name, inner in schema.get("properties", {}).items():
            yield (*path, name)
            pending.append(((*path, name), phrases.resolved(inner, document)))


def _hint_on_nothing(path: documents.Path, schema: phrases.Schema) -> str:
    """Return what to do with a key or an item that has no value."""
    noun = "item" if isinstance(path[-1], int) else "key"
    can_be_empty = schema["type"] == "object" and not (schema.get("required") or schema.get("minProperties"))
    return f"Remove the {noun}, or write {{}}." if can_be_empty else f"Remove the {noun}, or give it a value."


def _hint_on_type(
    value: Any, path: documents.Path, schema: phrases.Schema, document: phrases.Schema, span: diagnostics.Span
) -> str:
    """Return what to write instead of a value of a wrong type, where the value shows what was meant."""
    expected = schema["type"]
    if expected == "array":
        return _list(value, phrases.resolved(schema.get("items", {}), document))
    if expected == "object":
        return _mapping(value, schema)
    if expected == "string" and isinstance(value, bool | int | float):
        return f'Put it in quotes: "{_spelt(value, span)}".'
    if not isinstance(value, str):
        return ""
    if hint := _on_template(value):
        return hint
    if expected == "boolean" and value.lower() in _BOOLEANS:
        return f"Write {_BOOLEANS[value.lower()]}, without quotes."
    if expected not in ("integer", "number"):
        return ""
    if value.lstrip("-").isdigit() and len(value) > _MOST_DIGITS:
        return f"Write {phrases.expected(schema)}."
    duration = _duration(value) if _is_in_seconds(path) and not value.isdigit() else None
    return _number(value, path, expected) if duration is None else _seconds(duration, schema)


def _on_template(value: str) -> str:
    """Return the hint on a string that another tool should have filled in, or has filled in with nothing."""
    if keywords.NO_VALUE in value:
        return keywords.GIVE_VALUE
    return _RENDER if _TEMPLATE.search(value) else ""


def _duration(value: str) -> int | None:
    """Return the seconds of a duration as Go, Prometheus and people write it, such as 90s, 1h30 and 5 minutes."""
    parts = re.findall("([0-9]+) ?([a-z]*)", value.lower()) if value and _DURATION.fullmatch(value) else []
    seconds, units = 0, "dhms"
    for number, word in parts:
        # What ends without a unit has the next smaller one, as in 1h30; alone, seconds.
        unit = word[:1] or (units[:1] if len(units) < len(_UNITS) else "s")
        if (word and _UNIT.fullmatch(word) is None) or unit not in units or not unit:
            return None
        seconds, units = seconds + int(number) * _UNITS[unit], units.partition(unit)[2]
    return seconds if parts else None


def _written_duration(value: str) -> str:
    """Return a duration in hours, minutes and seconds, as 1h30m is; nothing for what is none."""
    left, text = _duration(value) or 0, ""
    if value.isdigit() and left:
        return f"{left}s"
    for unit in "hms":
        number, left = divmod(left, _UNITS[unit])
        text += f"{number}{unit}" if number else ""
    return text


def _list(value: Any, items: phrases.Schema) -> str:
    if not isinstance(value, dict):
        return f"Write a list, even of one: [{_item(value, items)}]."
    if value and items.get("properties", {}).keys() == {"name", "value"}:
        name, content = next(iter(value.items()))
        return f"Write a list: [{_variable(name, content)}{', …' if len(value) > 1 else ''}]."
    return "Begin each item of the list with '- '."


def _mapping(value: Any, schema: phrases.Schema) -> str:
    fields = schema.get("properties", {})
    if isinstance(value, str) and len(schema.get("required", ())) == 1:
        return f"Write {_item(value, schema)}."
    if fields and len(fields) <= _MOST_FIELDS:
        return f"Its fields are {wording.listed(fields)}."
    return "Write each entry as 'key: value', without '- '." if isinstance(value, list) else ""


def _item(value: Any, schema: phrases.Schema) -> str:
    """Return a scalar as an item of a list: as it is, or as the one field that a mapping requires."""
    required = schema.get("required", ())
    if len(required) != 1 or not isinstance(value, str):
        return wording.cut(value)
    name, equals, content = value.partition("=")
    if equals and "value" in schema.get("properties", {}):
        return _variable(name, content)
    return f"{{{required[0]}: {_written(value)}}}"


def _variable(name: Any, content: Any) -> str:
    """Return a variable as an item of a list; its value is a string."""
    text = str(content).lower() if isinstance(content, bool) else str(content)
    return f"{{name: {_written(str(name))}, value: {_written(text)}}}"


def _written(text: str) -> str:
    """Return a string as a scalar between brackets, where a comma or a bracket would end a plain one."""
    if not text.isprintable():
        return wording.cut(text)
    return wording.cut(canonical.quoted(text) if re.search(r"[\[\]{},]", text) else canonical.scalar(text))


def _is_in_seconds(path: documents.Path) -> bool:
    return str(path[-1]).endswith("Seconds")


def _seconds(seconds: int, schema: phrases.Schema) -> str:
    """Return what to write instead of a duration in a field of seconds."""
    if schema.get("minimum", 0) <= seconds <= schema.get("maximum", seconds):
        return f"Write {seconds}: the field is in seconds."
    return f"Write {phrases.expected(schema)}: the field is in seconds."


def _number(value: str, path: documents.Path, expected: str) -> str:
    digits = "-?[0-9]{1,15}" if expected == "integer" else r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?"
    number = re.fullmatch(rf"({digits})(\s*%)?", value, re.ASCII)
    if number is None or (number[2] and not str(path[-1]).lower().endswith("percent")):
        return ""
    return f"Write {number[1]}, without {'the sign' if number[2] else 'quotes'}."


def _spelt(value: Any, span: diagnostics.Span) -> str:
    """Return a number or boolean as the document spells it, such as 1.30 for the value 1.3."""
    word = re.match(r"[-+.\w]+", span.text[span.column - 1 :]) if span.column else None
    return word.group() if word else phrases.value(value).removeprefix("the number ")


def _amounts(value: str, schema: phrases.Schema, path: documents.Path) -> list[str]:
    """Return the durations, or the quantities, that a text may stand for; bytes by powers of ten, and of two."""
    form, texts = schema.get(keywords.FORM, ""), list[str]()
    if form.startswith("a duration"):
        texts = [_written_duration(value)]
    elif form.startswith("a quantity"):
        bytes_, processors = _QUANTITY.fullmatch(value), _PROCESSORS.fullmatch(value)
        if processors is not None and path[-1] == "cpu":
            texts = [f"{processors[1]}{'m' if processors[2].startswith('m') else ''}"]
        elif bytes_ is not None:
            number, unit, binary = bytes_.groups()
            ten, two = f"{number}{unit.lower() if unit in 'kK' else unit.upper()}", f"{number}{unit.upper()}i"
            texts = [two] if binary else [ten, two]
    return [text for text in texts if text and judge.is_found(schema["pattern"], text)]


def _hint_on_value(value: Any, schema: phrases.Schema, path: documents.Path) -> str:
    """Return the value that was probably meant instead of one that its schema refuses."""
    if isinstance(value, str) and keywords.NO_VALUE in value:
        return keywords.GIVE_VALUE
    if near := wording.nearest(value, (word for word in schema.get("enum", ()) if isinstance(word, str))):
        return f"Did you mean '{near}'?"
    if not isinstance(value, str) or "pattern" not in schema:
        return ""
    if hint := _on_template(value):
        return hint
    if amounts := _amounts(value, schema, path):
        return f"Did you mean {' or '.join(map(wording.quoted, amounts))}?"
    if "integer" in schema.get("type", ()) and re.fullmatch("[0-9]{1,15}", value, re.ASCII):
        return f"Write {int(value)}, without quotes."
    return _name_of_node(value, schema, path) or _meant_text(value, schema["pattern"])


def _of_recipe(value: Any, path: documents.Path) -> str:
    """Return the hint on an image where its name in spec.images is meant, and on an id of PCI as lspci has it."""
    if path[-1] == "image" and isinstance(value, str) and set(value) & set("/:"):
        return "Declare the image in spec.images, and write its name there."
    if isinstance(value, str) and path[1:3] != ("programs",) and re.fullmatch("0x[0-9A-Fa-f]{4}", value):
        return f'Write "{value[2:].lower()}".'
    return ""


def _name_of_node(value: str, schema: phrases.Schema, path: documents.Path) -> str:
    """Return the hint on a node of a group that is written with its cluster, as commands take it."""
    name = value.rpartition("/")[2]
    if path[-2:-1] != ("nodes",) or name == value or not judge.is_found(schema["pattern"], name):
        return ""
    return f"Write {name}: a group names nodes without their cluster, and `clusters` limits it to some."


def _meant_text(value: str, pattern: str) -> str:
    words = value.split()
    lower = re.sub(r"[\s_]+", "-", value.strip()).lower()
    for text in (value.strip(), "-".join(words), "".join(words), lower, posixpath.normpath(value)):
        if text and text != value and judge.is_found(pattern, text):
            return f"Did you mean {wording.quoted(text)}?"
    return ""
