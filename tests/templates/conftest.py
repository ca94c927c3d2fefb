"""NFD's objects, its definitions and the rules that label devices, as the templates render them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler import pipeline
from compiler.rendering import template_code
from compiler.rendering import templates as template_rendering
from tests import builders
from tests.templates import nfd


@pytest.fixture(scope="module")
def templates(repository_root: Path) -> Mapping[str, str]:
    folders = ("crds", "nfd", "node-feature-rule")
    paths = (path for folder in folders for path in (repository_root / "templates" / folder).iterdir())
    return {f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8") for path in paths}


@pytest.fixture(scope="module")
def rendered(templates: Mapping[str, str]) -> nfd.Rendered:
    return nfd.rendered(templates)


@pytest.fixture(scope="module")
def device_rules(templates: Mapping[str, str]) -> Any:
    made = pipeline.manifests_of(builders.view([])[0]).manifests
    (manifest,) = (item for item in made if item.component == "node-feature-rule")
    return template_rendering.renderer(templates, template_code.functions(templates))(manifest)
