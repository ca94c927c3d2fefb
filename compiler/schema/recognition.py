"""The schema of a document, by its kind and apiVersion."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from compiler import API_VERSION, diagnostics, wording
from compiler.formats import documents
from compiler.schema import phrases

diagnostics.shared_rule("not-an-object", "error", "A document is a mapping with apiVersion, kind, metadata and spec.")
diagnostics.shared_rule(
    "unknown-kind", "error", "A document is of a kind that the compiler reads, and in a folder for it."
)
diagnostics.shared_rule("unknown-version", "error", "The compiler reads the apiVersion of every document.")

STEMS: Mapping[str, str] = MappingProxyType(
    {
        "KAEPolicy": "kaepolicy",
        "DevicePolicy": "devicepolicy",
        "KAECluster": "kaecluster",
        "NodeInventory": "nodeinventory",
        "NodeList": "nodelist",
        "Recipe": "recipe",
    }
)
"""The name of each kind's schema."""

_LISTS = ("List", "NodeList")

Recognised = tuple[str | None, list[diagnostics.Diagnostic]]


def recognised(document: documents.Document, *, lists: bool) -> Recognised:
    """Return the kind of a document; or None, and why its kind or version is not read."""
    data = document.data
    if not isinstance(data, dict):
        message = f"Expected a mapping with apiVersion, kind, metadata and spec, found {phrases.value(data)}."
        return _refused(document, "not-an-object", message)
    kind = data.get("kind")
    if not isinstance(kind, str):
        return _without_kind(document, kind)
    if kind in _LISTS:
        return _recognised_list(document, kind, lists)
    if kind not in STEMS:
        return _unknown_kind(document, kind)
    version = data.get("apiVersion")
    if isinstance(version, str) and version != API_VERSION:
        return _unknown_version(document, kind, version)
    return kind, []  # The schema reports a version that is missing or no string.


def _without_kind(document: documents.Document, kind: Any) -> Recognised:
    hint = f"Write kind: with one of {wording.listed(STEMS)}."
    if kind is not None:
        message = f"Expected a string, found {phrases.value(kind)} in 'kind'."
        return _refused(document, "wrong-type", message, "kind", hint=hint)
    if "kind" in document.data:
        return _refused(document, "wrong-type", "'kind' has no value.", "kind", hint=hint)
    return _refused(document, "missing-field", "'kind' is missing.", "kind", hint=hint)


def _unknown_kind(document: documents.Document, kind: str) -> Recognised:
    hint = f"Keep only {wording.listed(STEMS)} here, and apply other objects separately."
    if kind == "Node":
        hint = "Put the output of 'kubectl get nodes -o json' into inventory/: a list, even of one node."
    elif near := wording.nearest(kind, STEMS):
        hint = f"Did you mean '{near}'?"
    message = f"{wording.quoted(kind)} is not a kind of document that the compiler reads."
    return _refused(document, "unknown-kind", message, "kind", hint=hint)


def _unknown_version(document: documents.Document, kind: str, version: str) -> Recognised:
    group = API_VERSION.partition("/")[0]
    hint = f"Write apiVersion: {API_VERSION}."
    if kind == "KAEPolicy" and version.startswith(f"{group}/"):
        hint = f"{hint[:-1]}, or translate a KAEPolicy of the KAE Operator with 'kae import FILE'."
    message = f"{wording.quoted(version)} is not a version of {kind} that the compiler reads."
    return _refused(document, "unknown-version", message, "apiVersion", hint=hint)


def _recognised_list(document: documents.Document, kind: str, lists: bool) -> Recognised:
    """Return NodeList for a List of Kubernetes whose items are all Nodes; a List can hold any objects."""
    if not lists:
        hint = "Keep lists of nodes in inventory/, and separate other documents by lines of '---'."
        return _refused(document, "unknown-kind", f"A {kind} is not read here.", "kind", hint=hint)
    version = document.data.get("apiVersion")
    if isinstance(version, str) and version != "v1":
        message = f"{wording.quoted(version)} is not a version of {kind} that the compiler reads."
        return _refused(document, "unknown-version", message, "apiVersion", hint="Write apiVersion: v1.")
    items = document.data.get("items")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        other = item.get("kind", "Node") if isinstance(item, dict) else "Node"
        if isinstance(other, str) and other != "Node":
            message = f"A {kind} is read for Nodes, and this one holds a {wording.quoted(other)}."
            hint = "Keep Nodes only in a list, and separate other documents by lines of '---'."
            return _refused(document, "unknown-kind", message, "items", index, "kind", hint=hint)
    return "NodeList", []


def _refused(document: documents.Document, code: str, message: str, *path: str | int, hint: str = "") -> Recognised:
    return None, [diagnostics.Diagnostic(code=code, span=document.span(*path), message=message, hint=hint)]
