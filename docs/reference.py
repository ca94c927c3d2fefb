"""Writes what docs/ says of the languages and of the findings, out of the code that decides it.

`python -m docs.reference` writes docs/policy-reference.md anew, and the table of findings in docs/operations.md.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler import devices, diagnostics
from compiler.model import base, json_schemas

HERE = Path(__file__).resolve().parent
REFERENCE = HERE / "policy-reference.md"
OPERATIONS = HERE / "operations.md"
BEGIN = "<!-- findings: written by docs/reference.py -->"
END = "<!-- end of findings -->"

_HEAD = """\
# Policy reference

Every field of the documents in policies/, as their JSON Schemas state it. This file is generated: `make docs` writes it
anew from compiler/model/. `kae schema kaepolicy` and `kae schema kaecluster` print the schemas themselves, for editors
and other tools.

Paths begin below `spec`, and `[]` stands for each entry of a list. A field that is not written has its default; a
field without a default may be left out unless it is marked as required. What a schema cannot say (selectors that
contradict each other, images that are not pinned, …) stands in the [table of findings](operations.md#findings).
"""

Schema = Mapping[str, Any]


def policy_reference() -> str:
    """The text of docs/policy-reference.md."""
    schemas = json_schemas.schemas()
    kinds = (("KAEPolicy", schemas["kaepolicy"]), ("KAECluster", schemas["kaecluster"]))
    return _HEAD + "".join(_kind(name, schema) for name, schema in kinds) + _devices()


def operations(text: str) -> str:
    """The text of docs/operations.md with its table of findings written anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{findings()}\n{END}{after}"


def findings() -> str:
    """The table of every code, its severity, and the rule that holds where it is not reported."""
    rows = ((f"`{name}`", code.severity, code.rule) for name, code in diagnostics.CODES.items())
    return _table(("code", "severity", "the rule"), rows)


def _devices() -> str:
    rows = ((kind.name, f"`{kind.resource}`", kind.title, kind.pf, kind.vf, kind.module) for kind in devices.KINDS)
    head = ("kind", "resource", "work", "PCI id of a physical function", "of a virtual function", "module")
    parameters = (
        (f"`{kind.module}.{name}`", f"{limits.least} to {limits.most}{', even' if limits.step == 2 else ''}")
        for kind in devices.KINDS
        for name, limits in kind.parameters.items()
    )
    ranges = _table(("parameter", "range"), parameters)
    return (
        f"\n## Device kinds\n\nThe vendor of all of them is `{devices.VENDOR}`.\n\n{_table(head, rows)}"
        f"\n### Module parameters\n\nWhat `driver.moduleParameters` takes.\n\n{ranges}"
    )


def _kind(name: str, schema: Schema) -> str:
    definitions = schema["$defs"]
    metadata, spec = (_resolved(schema["properties"][field], definitions) for field in ("metadata", "spec"))
    form = metadata["properties"]["name"][base.FORM]
    text = f"\n## {name}\n\n{schema['description']} `metadata.name` is {form}.\n"
    sections: dict[str, list[tuple[str, ...]]] = {}
    for row in _fields(spec, "", definitions):
        sections.setdefault(row[0].partition(".")[0].removesuffix("[]"), []).append(row)
    plain = [rows[0] for rows in sections.values() if len(rows) == 1]
    text += f"\n### {name}: top level\n\n{_fields_table(plain)}" if plain else ""
    for section, rows in sections.items():
        if len(rows) > 1:
            text += f"\n### {name}: {section}\n\n{_fields_table(rows)}"
    return text


def _fields_table(rows: Iterable[tuple[str, ...]]) -> str:
    return _table(("field", "type", "default", "meaning"), ((f"`{path}`", *more) for path, *more in rows))


def _fields(schema: Schema, above: str, definitions: Schema) -> Iterator[tuple[str, ...]]:
    """Path, type, default and meaning of each field of an object, and of those below it."""
    required = schema.get("required", ())
    for name, stated in schema.get("properties", {}).items():
        field = _resolved(stated, definitions)
        path = f"{above}{name}"
        default = "**required**" if name in required else _default(field)
        yield path, _type(field, definitions), default, _meaning(field, definitions)
        yield from _below(field, path, definitions)


def _below(field: Schema, path: str, definitions: Schema) -> Iterator[tuple[str, ...]]:
    if "properties" in field:
        yield from _fields(field, f"{path}.", definitions)
    elif "items" in field:
        yield from _below(_resolved(field["items"], definitions), f"{path}[]", definitions)


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    """A schema in the place of a reference to it; what stands beside the reference goes first."""
    if "$ref" not in schema:
        return schema
    return {**definitions[schema["$ref"].removeprefix("#/$defs/")], **schema}


def _meaning(field: Schema, definitions: Schema) -> str:
    described = "description" in field or "items" not in field
    return str((field if described else _resolved(field["items"], definitions)).get("description", ""))


def _default(field: Schema) -> str:
    default = field.get("default")
    return "" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"


def _type(field: Schema, definitions: Schema) -> str:
    """The type in words."""
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if base.FORM in field:
        return str(field[base.FORM])
    kind = field["type"]
    if kind == "array":
        return f"list of: {_type(_resolved(field['items'], definitions), definitions)}"
    if "additionalProperties" in field and field["additionalProperties"] is not False:
        return f"map to: {_type(_resolved(field['additionalProperties'], definitions), definitions)}"
    if kind == "integer" and "minimum" in field:
        return f"{field['minimum']} to {field['maximum']}"
    return str(kind)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    """A text as a table holds it: no `|`, and no `<` that would begin an HTML tag."""
    parts = text.replace("|", "\\|").split("`")
    return "`".join(part if index % 2 else part.replace("<", "\\<") for index, part in enumerate(parts))


def main() -> None:
    """Write both files anew."""
    REFERENCE.write_text(policy_reference(), encoding="utf-8", newline="\n")
    OPERATIONS.write_text(operations(OPERATIONS.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
