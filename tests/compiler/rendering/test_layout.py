"""Objects become files: one each, in a folder by component, listed in the order in which they are applied."""

from typing import Any

import pytest
import yaml

from compiler.output import tree
from compiler.rendering import ir, layout
from tests import builders

A = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kae"}}

Component = tuple[str, dict[str, Any]]


def compiled(*objects: Component, bootstrap: tuple[Component, ...] = ()) -> tree.Tree:
    made = ir.ClusterManifests(
        engine="none",
        manifests=tuple(manifest(*item) for item in objects),
        bootstrap=tuple(manifest(*item) for item in bootstrap),
    )
    return layout.tree(builders.view([])[0], layout.objects(made, lambda item: item.value))


def manifest(component: str, data: dict[str, Any]) -> ir.Manifest:
    """A manifest whose value is its object already."""
    return ir.Manifest(component=component, template="", value=data)


def files(*objects: Component, bootstrap: tuple[Component, ...] = ()) -> dict[str, str]:
    return dict(compiled(*objects, bootstrap=bootstrap).files)


def test_an_object_is_in_the_folder_of_its_component_by_kind_and_name() -> None:
    assert yaml.safe_load(files(("driver", A))["driver/configmap-a.yaml"]) == A


def test_the_files_are_sorted_by_path() -> None:
    texts = files(("namespace", NAMESPACE), ("driver", A), bootstrap=(("bootstrap", A),))

    assert list(texts) == sorted(texts)


def test_kustomize_lists_components_in_the_order_of_their_needs_and_no_bootstrap() -> None:
    texts = files(("monitoring", A), ("driver", A), ("namespace", NAMESPACE), bootstrap=(("bootstrap", A),))

    listed = yaml.safe_load(texts["kustomization.yaml"])["resources"]

    assert listed == ["namespace/namespace-kae.yaml", "driver/configmap-a.yaml", "monitoring/configmap-a.yaml"]
    assert "bootstrap/configmap-a.yaml" in texts


def test_every_image_is_listed_once_in_order() -> None:
    pod = {"containers": [{"image": "b:1"}, {"image": "a:1"}], "initContainers": [{"image": "b:1"}]}
    data = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod}

    assert files(("driver", data))["images.txt"] == "a:1\nb:1\n"


def test_a_cluster_without_objects_has_an_empty_list() -> None:
    texts = files()

    assert texts["images.txt"] == ""
    assert yaml.safe_load(texts["kustomization.yaml"])["resources"] == []


def test_two_objects_of_one_name_are_a_bug() -> None:
    with pytest.raises(ValueError, match="configmap-a"):
        files(("driver", A), ("driver", A))
