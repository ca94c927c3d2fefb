"""The objects of a cluster that the sides of a change do not have alike."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import structs

from compiler import names
from compiler.formats import field_difference
from compiler.rendering import layout


class Ref(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The identity of an object."""

    kind: str
    namespace: str
    """Empty for an object of the cluster."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"

    @property
    def path(self) -> str:
        """NAMESPACE/NAME, or NAME for an object of the cluster."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """An object that differs between two revisions: before and after, None where it is not there."""

    component: str
    path: str
    """Below the folder of the cluster's output."""
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def ref(self) -> Ref:
        """The identity of the object."""
        return ref(self.after or self.before or {})

    @property
    def change(self) -> Literal["added", "changed", "pruned"]:
        """What happens to the object in the output."""
        return "added" if self.before is None else "pruned" if self.after is None else "changed"

    @property
    def protector(self) -> str | None:
        """The GitOps engine that leaves the object in the cluster, although the output no longer has it."""
        return protector(self.before) if self.before is not None and self.after is None else None

    @property
    def is_by_hand(self) -> bool:
        """True for an object that a person applies, not an engine."""
        return self.component == names.BOOTSTRAP

    def fields(self) -> Sequence[field_difference.Field]:
        """Return the fields of a changed object that differ; the order of named items is none."""
        if self.before is None or self.after is None:
            return ()
        found = field_difference.fields(self.before, self.after)
        return [inner for field in found for inner in _inside(field)]


def _inside(field: field_difference.Field) -> Sequence[field_difference.Field]:
    """Return the fields inside of a text in JSON, such as the config of a program, and any other field as it is."""
    texts = (field.old, field.new)
    if not all(isinstance(text, str) and text.startswith("{") for text in texts):
        return (field,)
    try:
        old, new = map(json.loads, texts)
    except ValueError:
        return (field,)
    inner = field_difference.fields(old, new)
    return [structs.replace(item, text=field_difference.below(field.text, item.text)) for item in inner] or (field,)


def pairs(before: Mapping[Ref, layout.Object], after: Mapping[Ref, layout.Object]) -> tuple[Pair, ...]:
    """Return the objects that differ between two outputs of a cluster, sorted by path."""
    found = [
        Pair(
            component=(after.get(one) or before[one]).component,
            path=(after.get(one) or before[one]).path,
            before=before[one].data if one in before else None,
            after=after[one].data if one in after else None,
        )
        for one in {**before, **after}
    ]
    return tuple(sorted((pair for pair in found if pair.before != pair.after), key=lambda pair: (pair.path, pair.ref)))


def ref(data: Mapping[str, Any]) -> Ref:
    """Return the identity of an object."""
    # Output that was edited by hand may hold anything there.
    metadata = data["metadata"]
    namespace = metadata.get("namespace")
    return Ref(
        kind=str(data["kind"]), namespace=str(namespace) if namespace else "", name=str(metadata.get("name", ""))
    )


def protector(data: Mapping[str, Any]) -> str | None:
    """Return the GitOps engine that leaves an object in the cluster when the output no longer has it."""
    annotations = data["metadata"].get("annotations") or {}
    if "Prune=false" in str(annotations.get(names.SYNC_OPTIONS, "")).split(","):
        return "argocd"
    return "flux" if annotations.get(names.FLUX_PRUNE) == "disabled" else None
