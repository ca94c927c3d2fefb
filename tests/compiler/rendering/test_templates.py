"""No value breaks out of its place in a template, and nothing is made up for a name that is not there."""

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from compiler.fleet import pods
from compiler.rendering import ir, layout, template_code, template_runtime, templates
from tests import builders, effort


def renderer(template: str) -> layout.Render:
    texts = {"test/x.yaml": template}
    return templates.renderer(texts, template_code.functions(texts))


def rendered(template: str, value: object) -> object:
    make = renderer(template)
    return make(ir.Manifest(component="test", template="x.yaml", value=value))


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@hypothesis.settings(max_examples=effort.examples(gate=25, long=150))
@hypothesis.given(TEXT)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    manifest = rendered("apiVersion: v1\nname: {{ it.name }}\n", pods.Reference(name=text))

    assert manifest == {"apiVersion": "v1", "name": text}


@hypothesis.settings(max_examples=effort.examples(gate=15, long=60))
@hypothesis.given(st.dictionaries(TEXT, TEXT, max_size=3))
def test_any_mapping_comes_back_as_it_was(pairs: dict[str, str]) -> None:
    assert yaml.load(templates.flow(pairs), yaml.CSafeLoader) == pairs


@pytest.mark.parametrize("text", ["19e5", "1e3", "yes", "null", "0x1f", "", " a", "a: b", "{{ it.name }}", "- x", "#"])
def test_a_string_stays_a_string(text: str) -> None:
    assert rendered("apiVersion: v1\nname: {{ it.name }}\n", pods.Reference(name=text)) == {
        "apiVersion": "v1",
        "name": text,
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pods.Toleration(operator="Exists"), '{"operator": "Exists"}'),
        (pods.Toleration(key="a", tolerationSeconds=0), '{"key": "a", "operator": "Equal", "tolerationSeconds": 0}'),
        ((), "[]"),
        ((1, "1", True), '[1, "1", true]'),
        ({}, "{}"),
        ({"b": 1, "a": {"c": "d"}}, '{"a": {"c": "d"}, "b": 1}'),
    ],
)
def test_a_value_is_written_as_flow_without_what_is_not_set(value: object, text: str) -> None:
    assert templates.flow(value) == text


def test_a_name_that_is_not_there_fails() -> None:
    with pytest.raises(template_runtime.TemplateRuntimeError, match="'Reference' has no 'nane'"):
        rendered("name: {{ it.nane }}\n", pods.Reference(name="a"))


@pytest.mark.parametrize("template", ["{{ its.name }}", "{{ it.name | upper }}", "{% if it is odd %}{% endif %}"])
def test_a_part_of_the_language_that_is_not_there_fails(template: str) -> None:
    with pytest.raises((template_runtime.TemplateRuntimeError, ImportError)):
        rendered(template, pods.Reference(name="a"))


def test_a_constant_is_written_as_any_value() -> None:
    assert rendered("name: {{ 'a: b' }}", pods.Reference(name="a")) == {"name": "a: b"}


def test_a_value_that_no_manifest_can_hold_fails() -> None:
    with pytest.raises(TypeError):
        rendered("name: {{ it.name }}\n", pods.Reference(name=None))  # type: ignore[arg-type]  # that is the test


def test_equal_manifests_are_rendered_once() -> None:
    make = renderer("apiVersion: v1\nname: {{ it.name }}\n")

    one, other = (
        make(ir.Manifest(component="test", template="x.yaml", value=pods.Reference(name="a"))) for _ in range(2)
    )

    assert one is other


def test_every_object_of_a_cluster_is_rendered_the_same_again() -> None:
    assert builders.files([builders.policy()]) == builders.files([builders.policy()])
