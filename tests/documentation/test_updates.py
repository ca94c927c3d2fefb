"""renovate.json of a new repository: what its patterns find in policies and recipes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import in_process
from tests.documentation.pages import ROOT

RECIPES = sorted(ROOT.glob("templates/recipes/*/recipe.yaml"))


def managers() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "templates/init/renovate.json").read_text("utf-8"))[
        "customManagers"
    ]
    return found


def proposed(path: str, text: str) -> list[tuple[str, str]]:
    """Return the images that Renovate may change in a file, and their versions."""
    found = []
    for manager in managers():
        (files,) = (pattern.strip("/") for pattern in manager["managerFilePatterns"])
        for pattern in manager["matchStrings"] * bool(re.search(files, path)):
            for match in re.finditer(pattern.replace("(?<", "(?P<"), text):
                name = manager["depNameTemplate"].replace("{{{repository}}}", match["repository"])
                image = match.groupdict().get("image", "")
                found.append((name.replace("{{{image}}}", image), match["currentDigest"] or match["currentValue"]))
    return sorted(found)


def written(data: Any) -> Iterator[tuple[str, str]]:
    """Yield the images that a document writes whole, but for those that an image for each kernel stands for."""
    if isinstance(data, dict):
        if {"repository", "image", "version"} <= data.keys() and "$" not in data["version"]:
            yield f"{data['repository']}/{data['image']}", data["version"]
        for value in data.values():
            yield from written(value)
    elif isinstance(data, list):
        for value in data:
            yield from written(value)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_renovate_knows_every_image_of_a_recipe_that_it_can_find(path: Path) -> None:
    text = path.read_text("utf-8")

    assert proposed(f"recipes/{path.parent.name}/recipe.yaml", text) == sorted(written(yaml.safe_load(text)))


def test_renovate_knows_the_programs_of_a_new_repository_and_digests(tmp_path: Path) -> None:
    assert in_process.kae(tmp_path, "init", "fleet", "--registry", "registry.example.com/mine").code == 0
    text = (tmp_path / "fleet/policies/policy.yaml").read_text()
    digest = f"sha256:{'0' * 64}"
    text = re.sub("(?m)version: .*$", "version: 1.2.0", text, count=1)
    text = re.sub("(?m)version: (?!1.2.0).*$", f"version: {digest}", text)

    assert proposed("policies/policy.yaml", text) == [
        ("registry.example.com/mine/kae-device-plugin", digest),
        ("registry.example.com/mine/kae-driver-installer", "1.2.0"),
    ]
    assert json.loads((tmp_path / "fleet/renovate.json").read_text())["enabledManagers"][0] == "custom.regex"


def test_renovate_looks_at_no_manifest_of_the_output() -> None:
    text = "repository: a.example/b\nimage: c\nversion: 1.0\n"

    assert proposed("policies/a.yaml", text)
    assert proposed("output/east/a.yaml", text) == []
