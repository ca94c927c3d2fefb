"""The Python code of templates: jinja2 compiles them once, so that no call that renders imports it.

jinja2's environment takes as long to import as a fifth of the smallest compile. The code asks only for what
`template_runtime` has; a template that asks for more fails here.
"""

import re
from collections.abc import Mapping
from typing import Any, NoReturn

import jinja2

from compiler.rendering import template_runtime

_HEAD = '''"""The templates as Python code, made of templates/ (compiler/rendering/template_code.py)."""

# ruff: noqa
# mypy: ignore-errors
from compiler.rendering.template_runtime import LoopContext, TemplateRuntimeError, Undefined
from compiler.rendering.template_runtime import environment, internalcode, missing, str_join
'''
_FUNCTION = re.compile(r"^def root\(.*?(?=^blocks = )", re.MULTILINE | re.DOTALL)


def source(texts: Mapping[str, str], digest: str = "") -> str:
    """Return a module with a digest of its input, DIGEST, and the functions that yield a template's parts, TEMPLATES.

    Raises jinja2.TemplateError for a text that is no template.
    """
    environment = jinja2.Environment(
        finalize=_not_yet,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - the output is YAML, and `flow` escapes for it
    )
    functions = [_function(environment, name, text, number) for number, (name, text) in enumerate(texts.items())]
    listed = "".join(f"    {name!r}: root_{number},\n" for number, name in enumerate(texts))
    stated = f'DIGEST = "{digest}"\n'
    return "\n".join([_HEAD, stated, *functions, f"TEMPLATES = {{\n{listed}}}\n"])


def functions(texts: Mapping[str, str]) -> Mapping[str, template_runtime.Function]:
    """Return the functions of templates by name, compiled now. Raises jinja2.TemplateError for what is no template."""
    module: dict[str, Any] = {}
    exec(source(texts), module)  # noqa: S102 - the templates are our own
    compiled: Mapping[str, template_runtime.Function] = module["TEMPLATES"]
    return compiled


def _function(environment: jinja2.Environment, name: str, text: str, number: int) -> str:
    code = environment.compile(text, name, name, raw=True)
    (function,) = _FUNCTION.findall(code)
    return str(function).replace("def root(", f"def root_{number}(", 1)


def _not_yet(_: Any) -> NoReturn:
    """Have jinja2 leave a constant to the rendering, where `flow` writes it as any value."""
    raise jinja2.nodes.Impossible
