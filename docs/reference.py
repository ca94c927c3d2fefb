"""The texts of the references of policies and recipes, from the models, and of the findings, from tests/failures/."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler import codes, diagnostic_formats, diagnostics, kae, keywords, schema
from compiler.formats import decode
from compiler.migrate import operator_values, translation
from compiler.model import json_schemas, policy
from compiler.project import package_data
from docs import markdown

HERE = Path(__file__).resolve().parent
FAILURES = HERE.parent / "tests/failures"
REFERENCE = HERE / "policy-reference.md"
RECIPES = HERE / "recipe-reference.md"
FINDINGS = HERE / "findings.md"
EXAMPLES = package_data.HERE / "project/examples.json"

_REFERENCE_HEAD = """\
# Policy reference

Every field of the documents in policies/, from their JSON Schemas. `make docs` generates this page from
compiler/model/. `kae schema kaepolicy` and `kae schema kaecluster` print the schemas, for editors and other tools.

Paths begin below `spec`; `[]` stands for each entry of a list. A field that is not written has its default. A field
without a default is optional unless it is marked as required. An object that several fields share is described once,
at the end of its document. [Findings](findings.md) lists the rules that a schema cannot express.
"""

_RECIPES_HEAD = """\
# Recipe reference

Every field of recipes and of the policies that bring them to nodes, from their JSON Schemas. `make docs` generates this
page from compiler/model/. `kae schema recipe` and `kae schema devicepolicy` print the schemas, with `--recipe
NAME` that of one recipe's policies. [Recipes](recipes.md) explains the fields by examples.

Paths begin below `spec`; `[]` stands for each entry of a list. A field that is not written has its default. A field
without a default is optional unless it is marked as required. [Findings](findings.md) lists the rules that a schema
cannot express; fields that DevicePolicies share with KAEPolicies are in the [policy reference](policy-reference.md).

In a field of `driver` or `devicePlugin` whose type says so, `${values.NAME}` alone stands for the value of a parameter;
[programs](programs.md#references) have references in texts, too.
The names and values that a DevicePolicy may write in `values`, `images`, `driver.modules`, `driver.moduleParameters`
and `driver.source` are those of its recipe.
"""

_FINDINGS_HEAD = """\
# Findings

Every code that `kae` reports: the rule, and an example with its place, its message and the fix as hint. `make docs`
generates this page from the compiler and from tests/failures/, where the folder of a code holds the documents of its
example. [Operations](operations.md#findings) explains how to read a finding.
"""

_IMPORTED = {
    "import-source": "apiVersion: v1\nkind: Node\n",
    "import-dropped": "operator:\n  upgradeCRD: true\n",
    "import-differs": "operator:\n  enabledSEC: true\n",
}
"""Values files that earn the codes of `kae import`; every other code has a folder in tests/failures/."""

_WEIGHTS = {
    "error": "errors",
    "guard": "errors that a project may lower",
    "removal": "removals: errors that a person may accept, and a project may lower",
    "warning": "warnings",
    "change": "warnings of what a compile changes",
    "risk": "risks of `kae diff`: warnings that a person may accept",
}
"""The weights of rules, as a reader meets them."""

_OVERRIDES = ("version", "repository", "image", "source", "state")
"""The fields of `policy.Overrides`, which mappings, waves and frozen groups share."""

Schema = Mapping[str, Any]
Row = tuple[str, str, str, str]


def policy_reference() -> str:
    """Return the text of docs/policy-reference.md."""
    kinds = [(kind, json_schemas.schema(kind.lower())) for kind in ("KAEPolicy", "KAECluster")]
    documents = "".join(_Language(name, schema).text() for name, schema in kinds)
    return _REFERENCE_HEAD + documents + _forms([schema for _, schema in kinds]) + _devices()


def recipe_reference() -> str:
    """Return the text of docs/recipe-reference.md."""
    kinds = [(kind, json_schemas.schema(kind.lower())) for kind in ("Recipe", "DevicePolicy")]
    documents = "".join(_Language(name, schema).text() for name, schema in kinds)
    return _RECIPES_HEAD + documents + _forms([schema for _, schema in kinds])


def findings() -> str:
    """Return the text of docs/findings.md: the codes by what they are, and a section for each."""
    rows = (
        (said, ", ".join(f"[{name}](#{name})" for name in diagnostics.CODES if codes.TABLE[name][0] == weight))
        for weight, said in _WEIGHTS.items()
    )
    sections = (_finding(name, code) for name, code in diagnostics.CODES.items())
    return f"{_FINDINGS_HEAD}\n{markdown.table(('kind', 'codes'), rows)}{''.join(sections)}"


def _finding(name: str, code: diagnostics.Code) -> str:
    is_guard = code.severity == "error" and code.can_be_lowered
    kind = "Error, which a project may lower" if is_guard else code.severity.capitalize()
    return f"\n## {name}\n\n{kind}. Rule: {markdown.cell(code.rule)}\n\n```text\n{_example(name)}```\n"


def examples() -> str:
    """Return the text of compiler/project/examples.json, which `kae rule` shows."""
    return json.dumps({name: _example(name) for name in diagnostics.CODES}, indent=1, ensure_ascii=False) + "\n"


def _example(name: str) -> str:
    """Return the first finding of a code in its example."""
    shown = (
        _import_text(_IMPORTED[name]) if name in _IMPORTED else (FAILURES / name / "expected.txt").read_text("utf-8")
    )
    entries = re.split(r"^(?=\S)", shown, flags=re.MULTILINE)
    return next(each for each in entries if f"[{name}]" in each.partition("\n")[0])


def _import_text(values: str) -> str:
    """Return the findings of `kae import` on a values file."""
    document, found = decode.decode("values.yaml", values.encode())
    if document is None:
        raise ValueError(f"The example of an import cannot be read: {found}")
    names = translation.Names(cluster="east", policy=None, namespace=None)
    _, more = operator_values.translated(document, names, schema.Judge(package_data.schemas()))
    return diagnostic_formats.text(diagnostics.merged(more), colour=False)


def _range(parameter: Schema) -> str:
    even = ", even" if parameter.get("multipleOf") == 2 else ""
    return f"{parameter['minimum']} to {parameter['maximum']}{even}"


def _devices() -> str:
    rows = (
        (kind.name, f"`{kind.resource}`", f"{kind.name.upper()} ({kind.use})", kind.pf, kind.vf, kind.module)
        for kind in kae.KINDS
    )
    head = ("kind", "resource", "work", "PCI id of a physical function", "of a virtual function", "module")
    parameters = (
        (f"`{module.name}.{name}`", _range(parameter))
        for module in kae.RECIPE.modules
        for name, parameter in module.parameters.items()
    )
    ranges = markdown.table(("parameter", "range"), parameters)
    return (
        f"\n## Device kinds\n\nThe vendor of all of them is `{kae.VENDOR}`.\n\n{markdown.table(head, rows)}"
        f"\n### Module parameters\n\nWhat `driver.moduleParameters` takes.\n\n{ranges}"
    )


@dataclass(frozen=True)
class _Language:
    """A kind of document, and the tables of its fields."""

    name: str
    schema: Schema

    def text(self) -> str:
        """Return the kind's part of the page."""
        metadata, spec = (self._resolved(self.schema["properties"][field]) for field in ("metadata", "spec"))
        form = metadata["properties"]["name"][keywords.FORM]
        text = f"\n## {self.name}\n\n{self.schema['description']} `metadata.name` is {form}.\n"
        sections: dict[str, list[Row]] = {}
        for row in self._fields(spec, ""):
            sections.setdefault(row[0].partition(".")[0].removesuffix("[]"), []).append(row)
        plain = [rows[0] for rows in sections.values() if len(rows) == 1]
        text += self._section("top level", "", plain) if plain else ""
        text += "".join(self._section(title, "", rows) for title, rows in sections.items() if len(rows) > 1)
        return text + self._shared_sections()

    def _shared(self) -> list[str]:
        """Return the definitions with several fields that several fields refer to."""
        used = Counter(re.findall(r'"#/\$defs/(\w+)"', json.dumps(self.schema)))
        definitions = self.schema["$defs"]
        return sorted(name for name, count in used.items() if count > 1 and len(_properties(definitions[name])) > 1)

    def _shared_sections(self) -> str:
        definitions = self.schema["$defs"]
        text = ""
        if "Wave" in definitions:
            fields = {name: definitions["Wave"]["properties"][name] for name in _OVERRIDES}
            meaning = str(policy.Overrides.__doc__)
            text += self._section("Overrides", meaning, self._fields({"properties": fields}, "", inlined=True))
        for name in self._shared():
            described = definitions[name].get("description", "")
            text += self._section(name, described, self._fields(definitions[name], ""))
        return text

    def _section(self, title: str, meaning: str, rows: Iterable[Row]) -> str:
        table = markdown.table(("field", "type", "default", "meaning"), ((f"`{path}`", *more) for path, *more in rows))
        return f"\n### {self.name}: {title}\n\n{meaning}{2 * chr(10) if meaning else ''}{table}"

    def _link(self, title: str) -> str:
        return f"See [{title}](#{self.name.lower()}-{title.lower()})."

    def _fields(self, schema: Schema, above: str, *, inlined: bool = False) -> Iterator[Row]:
        """Yield path, type, default and meaning of each field of an object, and of those below it."""
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        overrides = not inlined and set(_OVERRIDES) < set(properties) and "pullPolicy" not in properties
        if overrides:
            yield f"{above}…", "", "", f"{', '.join(f'`{name}`' for name in _OVERRIDES)}. {self._link('Overrides')}"
        for name, stated in properties.items():
            if overrides and name in _OVERRIDES:
                continue
            field = self._resolved(stated)
            default = "**required**" if name in required else _default(field)
            path, shared = f"{above}{name}", self._shared_name(stated)
            meaning = f"{self._meaning(field)} {self._link(shared)}" if shared else self._meaning(field)
            yield path, self._type(field), default, meaning
            if not shared:
                yield from self._below(field, path)

    def _below(self, field: Schema, path: str) -> Iterator[Row]:
        if "value" in _chosen(field):
            return  # Its form says it.
        if "properties" in field:
            yield from self._fields(field, f"{path}.")
        elif "items" in field:
            yield from self._below(self._resolved(field["items"]), f"{path}[]")
        elif isinstance(field.get("additionalProperties"), Mapping):
            yield from self._below(self._resolved(field["additionalProperties"]), f"{path}.NAME")

    def _shared_name(self, stated: Schema) -> str:
        """Return the shared definition that a field or the entries of a list refer to, or nothing."""
        name = str(stated.get("$ref", stated.get("items", {}).get("$ref", ""))).removeprefix("#/$defs/")
        return name if name in self._shared() else ""

    def _resolved(self, schema: Schema) -> Schema:
        """Return a schema in place of a reference to it; the keys beside the reference win."""
        if "$ref" not in schema:
            return schema
        return {**self.schema["$defs"][schema["$ref"].removeprefix("#/$defs/")], **schema}

    def _meaning(self, field: Schema) -> str:
        described = "description" in field or "items" not in field
        return str((field if described else self._resolved(field["items"])).get("description", ""))

    def _type(self, field: Schema) -> str:
        """Return the type in words."""
        if "enum" in field:
            return ", ".join(f"`{value}`" for value in field["enum"])
        if keywords.FORM in field:
            short, rule = _form(field[keywords.FORM])
            return f"[{short}](#forms)" if rule else short
        kind = field.get("type", "any value")
        if kind == "array":
            return f"list of: {self._type(self._resolved(field['items']))}"
        if "additionalProperties" in field and field["additionalProperties"] is not False:
            return f"map to: {self._type(self._resolved(field['additionalProperties']))}"
        if kind == "integer" and "minimum" in field:
            return f"{field['minimum']} to {field['maximum']}"
        return str(kind)


def _chosen(field: Schema) -> Collection[str]:
    """Return the keys of a value under a condition; none of a condition itself, nor of another field."""
    others = field.get("additionalProperties")
    is_condition = isinstance(others, Mapping) and "null" in others.get("type", ())
    is_file = "each" in field.get("properties", ())
    return ("value",) if is_condition or is_file or field.get("properties", {}).keys() == {"when", "value"} else ()


def _properties(definition: Schema) -> Schema:
    """Return the fields of a definition; none of one that its form says."""
    return {} if _chosen(definition) else definition.get("properties", {})


def _form(text: str) -> tuple[str, str]:
    """Return the name of a form of strings and its rule; the rule is empty where the name says all."""
    short, _, rule = text.partition(" (at most")
    kernels = " with kernel placeholders" if "${KERNEL" in rule else ""
    return f"{short}{kernels}", f"at most{rule.removesuffix(')')}" if rule else ""


def _forms(schemas: Iterable[Schema]) -> str:
    """Return the section of the forms that fields share."""
    texts = {text for schema in schemas for text in _form_texts(schema)}
    rows = sorted((short, rule) for short, rule in map(_form, texts) if rule)
    return f"\n## Forms\n\n{markdown.table(('form', 'rule'), rows)}"


def _form_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get(keywords.FORM), str):
            yield value[keywords.FORM]
        for below in value.values():
            yield from _form_texts(below)
    elif isinstance(value, list):
        for below in value:
            yield from _form_texts(below)


def _default(field: Schema) -> str:
    default = field.get("default")
    return "" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"
