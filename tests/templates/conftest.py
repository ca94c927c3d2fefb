"""NFD's objects, its definitions and the rules that label devices, as the templates render them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler.rendering import cluster_values, ir, node_feature_rules
from compiler.rendering import templates as template_rendering
from tests import builders

NAMESPACE = "kae-operator"

Rendered = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def templates(repository_root: Path) -> Mapping[str, str]:
    folders = ("crds", "nfd", "node-feature-rule")
    paths = (path for folder in folders for path in (repository_root / "templates" / folder).iterdir())
    return {f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8") for path in paths}


@pytest.fixture(scope="module")
def rendered(templates: Mapping[str, str]) -> Rendered:
    """The objects of NFD and its definitions, by template name without its ending."""
    renders = template_rendering.renderer(templates)

    def objects(
        minor: int, tolerations: tuple[ir.Toleration, ...] = (), worker_tolerations: tuple[ir.Toleration, ...] = ()
    ) -> dict[str, Any]:
        value = cluster_values.Nfd(
            namespace=NAMESPACE,
            image="registry.example/nfd:v1",
            pull_policy="IfNotPresent",
            minor=minor,
            tolerations=tolerations,
            worker_tolerations=worker_tolerations,
            pull_secrets=(),
            terms=(),
            master=cluster_values.NfdPod(priority_class="system-cluster-critical", resources=None),
            worker=cluster_values.NfdPod(priority_class="system-node-critical", resources=None),
            gc=cluster_values.NfdPod(priority_class=None, resources=None),
            fixed_user=True,
        )
        found = {}
        for name in sorted(templates):
            component, _, template = name.partition("/")
            if component != "node-feature-rule":
                manifest = ir.Manifest(component=component, template=template, value=value)
                found[template.removesuffix(".yaml")] = renders(manifest)
        return found

    return objects


@pytest.fixture(scope="module")
def device_rules(templates: Mapping[str, str]) -> Any:
    (manifest,) = node_feature_rules.of_cluster(builders.cluster(), ())
    return template_rendering.renderer(templates)(manifest)
