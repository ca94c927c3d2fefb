"""Objects from templates: each template renders one IR value, and the text is parsed back into data.

jinja2 has compiled the templates (`template_code`); what they need as they run is in `template_runtime`.

Every value in a template is written as a YAML flow value, so that no value can change the structure around it.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from compiler.fleet import pods
from compiler.formats import canonical, yaml_text
from compiler.rendering import ir, layout, template_runtime

Templates = Mapping[str, str]
"""Template texts by name, `<component>/<template>`."""

_KIND = re.compile(r"^apiVersion: (\S+)\nkind: (\S+)$", re.MULTILINE)
_NAMESPACED = re.compile(r"^metadata:\n(  .*\n)*?  namespace: ", re.MULTILINE)


class Kind(msgspec.Struct, frozen=True):
    """A kind of objects that the output of a cluster can hold, as templates state it."""

    api_version: str
    name: str
    namespaced: bool

    @property
    def group(self) -> str:
        """Return the API group."""
        return self.api_version.rpartition("/")[0]


def kinds(templates: Templates) -> tuple[Kind, ...]:
    """Return every kind that the templates of components can make, by API group and name."""
    found = {
        Kind(api_version, kind, _NAMESPACED.search(text) is not None)
        for name, text in templates.items()
        if name.partition("/")[0] in layout.NAMES
        for api_version, kind in _KIND.findall(text)
    }
    return tuple(sorted(found, key=lambda kind: (kind.group, kind.name)))


def renderer(templates: Templates, code: Mapping[str, template_runtime.Function]) -> Callable[[ir.Manifest], Any]:
    """Return a function from a manifest to its object, which renders equal manifests once.

    `code` is the templates' code, by their names.
    """
    template_runtime.environment.finalize = flow
    named = {"kinds": functools.cache(functools.partial(kinds, templates))}
    done: dict[ir.Manifest, Any] = {}

    def render(manifest: ir.Manifest) -> Any:
        rendered = done.get(manifest)
        if rendered is None:
            name = f"{manifest.component}/{manifest.template}"
            text = "".join(code[name](template_runtime.Context({**named, "it": manifest.value})))
            rendered = done[manifest] = yaml_text.single(text, name)
        return rendered

    return render


def flow(value: Any) -> str:
    """Return a value of the IR as YAML flow text, which is also JSON."""
    match value:
        case str():
            return canonical.quoted(value)
        case Mapping():
            return _mapping(sorted(value.items()))
        case tuple() | list():
            return "[" + ", ".join(flow(item) for item in value) + "]"
        case pods.Resources(limits=limits, requests=requests):
            stated = {"limits": limits, "requests": requests}
            return flow({side: {name: str(own[name]) for name in own} for side, own in stated.items() if own})
        case pods.EnvVar(name=name, value=text):
            # The kubelet turns "$$" into "$" anywhere, and else would take $(NAME) for a variable: `Expand` in
            # Kubernetes' third_party/forked/golang/expansion/expand.go. The API server drops an empty value.
            return flow({"name": name, "value": text.replace("$", "$$")} if text else {"name": name})
        case msgspec.Struct():
            fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
            return _mapping((name, item) for name, item in fields if item not in (None, ()))
    return canonical.scalar(value)


def _mapping(pairs: Iterable[tuple[str, Any]]) -> str:
    return "{" + ", ".join(f"{canonical.quoted(key)}: {flow(item)}" for key, item in pairs) + "}"
