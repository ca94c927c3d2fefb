"""NFD's objects and its definitions, as the templates render them."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from compiler.fleet import pods
from compiler.rendering import cluster_programs, ir, template_code
from compiler.rendering import templates as template_rendering
from runtime import driver_labels
from tests import builders

NAMESPACE = "kae-operator"
SPEC = builders.cluster().spec.nfd

Rendered = Callable[..., dict[str, Any]]
"""Takes a minor release and tolerations, and returns the objects by template name without its ending."""


def rendered(templates: Mapping[str, str]) -> Rendered:
    """Return what renders the objects of NFD and its definitions, of the texts of templates by their paths."""
    renders = template_rendering.renderer(templates, template_code.functions(templates))

    def objects(
        minor: int, tolerations: tuple[pods.Toleration, ...] = (), worker_tolerations: tuple[pods.Toleration, ...] = ()
    ) -> dict[str, Any]:
        value = cluster_programs.Nfd(
            namespace=NAMESPACE,
            spec=replace(SPEC, tolerations=tolerations),
            image="registry.example/nfd:v1",
            minor=minor,
            terms=(),
            worker_tolerations=worker_tolerations,
            fixed_user=True,
            features=driver_labels.FOLDER,
        )
        found = {}
        for name in sorted(templates):
            component, _, template = name.partition("/")
            if component != "node-feature-rule":
                manifest = ir.Manifest(component=component, template=template, value=value)
                found[template.removesuffix(".yaml")] = renders(manifest)
        return found

    return objects
