"""The code of the templates: what a build keeps is taken where it is of these templates."""

import sys
import types
from typing import Any

import pytest

import compiler
from compiler.project import package_data
from compiler.rendering import template_code, template_runtime

RIGHT = template_runtime.digest(package_data.templates())
FOREIGN: dict[str, Any] = {"namespace/namespace.yaml": None}


@pytest.mark.parametrize(
    ("kept", "is_taken"),
    [
        ({"DIGEST": RIGHT, "TEMPLATES": FOREIGN}, True),
        ({"DIGEST": "of other templates", "TEMPLATES": FOREIGN}, False),
        ({"TEMPLATES": FOREIGN}, False),
        ({"DIGEST": RIGHT}, False),
        ({}, False),
    ],
)
def test_code_of_other_templates_or_half_a_module_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, kept: dict[str, Any], is_taken: bool
) -> None:
    module = types.ModuleType("compiler._templates")
    vars(module).update(kept)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(compiler, "_templates", module, raising=False)

    found = package_data.code.__wrapped__()

    assert (found is FOREIGN) is is_taken
    assert is_taken or found.keys() == package_data.templates().keys()


def test_code_is_told_from_that_of_an_edited_template_and_of_another_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"a/b.yaml": "a: {{ it }}\n"}
    before = template_runtime.digest(texts)

    assert before in template_code.source(texts)
    assert template_runtime.digest({"a/b.yaml": "b: {{ it }}\n"}) != before
    monkeypatch.setattr(template_runtime, "__file__", __file__)
    assert template_runtime.digest(texts) != before
