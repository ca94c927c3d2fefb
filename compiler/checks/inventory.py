"""Findings about one inventory that its schema cannot make."""

from collections.abc import Iterator

from compiler import diagnostics, repeats
from compiler.formats import documents


def faults(document: documents.Document) -> Iterator[diagnostics.Diagnostic]:
    """What a schema cannot say of a NodeInventory or a list of Nodes: names are unique, profiles exist."""
    canonical_form = document.data["kind"] == "NodeInventory"
    head: documents.Path = ("spec", "nodes") if canonical_form else ("items",)
    items = document.data["spec"].get("nodes", ()) if canonical_form else document.data["items"]
    profiles = document.data["spec"].get("profiles", {}) if canonical_form else {}
    named = [item["name"] if canonical_form else item["metadata"]["name"] for item in items]
    for _, (index, name) in repeats.of(enumerate(named), key=lambda pair: pair[1]):
        yield diagnostics.Diagnostic(
            code="duplicate-node",
            span=document.span(*head, index),
            message=f"Node '{name}' stands twice in the inventory.",
            hint="Keep one of the two; after a merge, let the watcher or `kae inventory` write the file anew.",
        )
    for index, item in enumerate(items if canonical_form else ()):
        if item["profile"] not in profiles:
            yield diagnostics.Diagnostic(
                code="unknown-profile",
                span=document.span(*head, index, "profile"),
                message=f"Node '{item['name']}' has the profile '{item['profile']}', which is not in the inventory.",
                hint="After a merge, let the watcher or `kae inventory` write the file anew.",
            )
