"""What people changed: documents that differ, are renamed, come and go."""

from collections.abc import Mapping
from typing import Any

import pytest

from compiler import names
from compiler.changes import intent
from compiler.formats import documents
from tests import builders

TLS, WEB = ({"nodeSelector": {"matchLabels": {"pool": pool}}} for pool in ("tls", "web"))


def policy(name: str, spec: Mapping[str, Any], version: str = "2.2.0", file: str = "policies/a.yaml") -> Any:
    return builders.document(builders.raw("KAEPolicy", name, {**spec, "driver": {"version": version}}), file)


def recipe(name: str, device: str, title: str = "Lab", file: str = "recipes/lab/recipe.yaml") -> Any:
    spec = {"title": title, "match": {"pci": [{"kind": "npu", "vendor": "19e5", "devices": [device]}]}}
    return builders.document(builders.raw("Recipe", name, spec), file)


def of_all(name: str, modules: list[str], title: str = "Lab") -> Any:
    spec = {"title": title, "match": {"all": {}}, "driver": {"modules": [{"name": module} for module in modules]}}
    return builders.document(builders.raw("Recipe", name, spec), "recipes/lab/recipe.yaml")


def told(before: list[documents.Document], after: list[documents.Document]) -> list[tuple[str, str, str]]:
    """Return name, action and former name of what differs."""
    return [(item.name, item.action, item.old_name) for item in intent.changes(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        pytest.param(
            [policy("tls", TLS)],
            [policy("web", WEB, "2.3.0")],
            [("tls", "removed", "tls"), ("web", "added", "web")],
            id="another policy in its file",
        ),
        pytest.param(
            [policy("tls", TLS)],
            [policy("new", TLS, "2.3.0", "policies/b.yaml")],
            [("new", "renamed", "tls")],
            id="another name and another file",
        ),
        pytest.param(
            [policy("a", TLS), policy("b", WEB)],
            [policy("c", WEB, "2.3.0"), policy("d", TLS, "2.3.0")],
            [("c", "renamed", "b"), ("d", "renamed", "a")],
            id="two of one file, in another order",
        ),
        pytest.param(
            [policy("a", TLS, file="policies/a.yaml"), policy("b", WEB, file="policies/b.yaml")],
            [policy("a", TLS, file="policies/b.yaml"), policy("b", WEB, "2.3.0", file="policies/a.yaml")],
            [("b", "changed", "b")],
            id="files exchanged",
        ),
        pytest.param(
            [policy("a", TLS, file="policies/a.yaml"), policy("b", WEB, file="policies/b.yaml")],
            [policy("x", TLS, "2.3.0", "policies/b.yaml"), policy("y", WEB, "2.3.0", "policies/a.yaml")],
            [("x", "renamed", "a"), ("y", "renamed", "b")],
            id="names and files exchanged",
        ),
        pytest.param(
            [recipe("lab", "a258")],
            [recipe("new", "a258", "New", "recipes/new/recipe.yaml")],
            [("new", "renamed", "lab")],
            id="a recipe with another title",
        ),
        pytest.param(
            [recipe("lab", "a258")],
            [recipe("new", "b123", "New")],
            [("lab", "removed", "lab"), ("new", "added", "new")],
            id="another recipe in its file",
        ),
        pytest.param(
            [of_all("lab", ["lab_dev"])],
            [of_all("new", ["other_dev"])],
            [("lab", "removed", "lab"), ("new", "added", "new")],
            id="another recipe of all nodes without resources",
        ),
        pytest.param(
            [of_all("lab", ["lab_dev"])],
            [of_all("new", ["lab_dev"], title="New")],
            [("new", "renamed", "lab")],
            id="a recipe of all nodes with the same modules",
        ),
        pytest.param(
            [builders.document(builders.raw("KAECluster", "east", {"namespace": "a"}))],
            [builders.document(builders.raw("KAECluster", "west", {"namespace": "b"}))],
            [("east", "removed", "east"), ("west", "added", "west")],
            id="another cluster",
        ),
    ],
)
def test_a_document_is_renamed_if_it_is_for_the_same_whatever_file_it_is_in(
    before: list[documents.Document], after: list[documents.Document], changes: list[tuple[str, str, str]]
) -> None:
    assert told(before, after) == changes


@pytest.mark.parametrize("value", [True, 5, 2.5, "text", [], [5], {}, {"name": 5}, [{"name": [5]}]])
@pytest.mark.parametrize(
    "path", ["", "spec", "spec.match", "spec.driver", "spec.driver.modules", "spec.devicePlugin.resources"]
)
def test_a_recipe_with_a_value_of_any_form_is_compared(path: str, value: Any) -> None:
    data: Any = builders.raw("Recipe", "new", {"match": {"all": {}}, "driver": {}, "devicePlugin": {}})
    part, keys = data, path.split(".")
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    odd = builders.document(data, "recipes/new/recipe.yaml")

    assert told([of_all("lab", ["lab_dev"])], [odd]) != []
    assert told([odd], [of_all("lab", ["lab_dev"])]) != []


@pytest.mark.parametrize("value", [True, 5, "text", []])
def test_a_project_file_of_any_form_is_compared(value: Any) -> None:
    odd = builders.document(value, names.PROJECT_FILE)

    assert [item for item in told([policy("tls", TLS)], [odd]) if item[0] == "tls"] == [("tls", "removed", "tls")]
