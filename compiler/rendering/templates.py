"""Objects from templates: each template renders one IR value, and the text is parsed back into data.

Every value in a template is written as a YAML flow value, so that no value can change the structure around it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jinja2
import msgspec

from compiler.formats import canonical, yaml_text
from compiler.rendering import ir

Templates = Mapping[str, str]
"""Template texts by name, `<component>/<template>`."""


def renderer(templates: Templates, bytecode: jinja2.BytecodeCache | None = None) -> Callable[[ir.Manifest], Any]:
    """Return a function from a manifest to its object, which renders equal manifests once."""
    environment = _environment(tuple(templates.items()), bytecode)
    done: dict[ir.Manifest, Any] = {}

    def render(manifest: ir.Manifest) -> Any:
        rendered = done.get(manifest)
        if rendered is None:
            name = f"{manifest.component}/{manifest.template}"
            text = environment.get_template(name).render(it=manifest.value)
            rendered = done[manifest] = yaml_text.single(text, name)
        return rendered

    return render


@functools.cache
def _environment(templates: tuple[tuple[str, str], ...], bytecode: jinja2.BytecodeCache | None) -> jinja2.Environment:
    """Return the environment of these templates, which compiles each of them once in a process."""
    return jinja2.Environment(
        loader=jinja2.DictLoader(dict(templates)),
        undefined=jinja2.StrictUndefined,
        finalize=flow,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - the output is YAML, and `flow` escapes for it
        bytecode_cache=bytecode,
    )


def flow(value: Any) -> str:
    """Return a value of the IR as YAML flow text, which is also JSON."""
    if isinstance(value, str):
        return canonical.quoted(value)
    if isinstance(value, ir.Map):
        return "{" + ", ".join(f"{canonical.quoted(key)}: {flow(item)}" for key, item in value.pairs) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, msgspec.Struct):
        present = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return flow(ir.Map(tuple((name, item) for name, item in present if item is not None)))
    return canonical.scalar(value)
