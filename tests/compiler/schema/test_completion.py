"""Documents completed by their schema, judged by the models that the schema is made of."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.model import base, cluster, device_policy, policy, recipe
from compiler.project import package_data
from compiler.schema import judge

MODELS: dict[str, type[base.Model]] = {
    "DevicePolicy": device_policy.DevicePolicy,
    "KAECluster": cluster.KAECluster,
    "KAEPolicy": policy.KAEPolicy,
    "Recipe": recipe.Recipe,
}


def documents(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kind and the data of each document of the golden projects and the examples.

    A model takes no parameters in a recipe's fields.
    """
    for folder in ("tests/golden", "docs/examples", "policies", "templates/recipes"):
        for file in sorted((root / folder).rglob("*.yaml")):
            for data in yaml.load_all(file.read_text(), yaml.CSafeLoader) if "output" not in file.parts else ():
                if isinstance(data, dict) and data.get("kind") in MODELS and "${values." not in str(data):
                    yield data["kind"], data


@pytest.mark.parametrize("kind", MODELS)
def test_a_document_gets_the_defaults_that_its_model_has(kind: str, repository_root: Path) -> None:
    schema = package_data.schemas()[kind.lower()]
    given = [data for own, data in documents(repository_root) if own == kind]

    made = [judge.completed(schema, data)["spec"] for data in given]

    models = [MODELS[kind].model_validate(data) for data in given]
    assert made == [model.model_dump(mode="json", by_alias=True, exclude_none=True)["spec"] for model in models]
    assert given


def test_a_whole_number_with_a_point_is_an_integer() -> None:
    driver = {"rollout": {"maxParallel": 2.0}, "moduleParameters": {"hisi_zip": {"uacce_mode": 1.0}}}
    data = {"apiVersion": "v1", "kind": "KAEPolicy", "metadata": {"name": "tls"}, "spec": {"driver": driver}}

    found = judge.completed(package_data.schemas()["kaepolicy"], data)["spec"]["driver"]

    assert repr(found["rollout"]["maxParallel"]) == "2"
    assert repr(found["moduleParameters"]) == "{'hisi_zip': {'uacce_mode': 1}}"
