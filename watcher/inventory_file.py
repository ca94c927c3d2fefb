"""Read the inventory in the repository strictly, because anybody may have written it."""

from typing import Annotated, Literal

import msgspec
from msgspec import structs

from compiler import API_VERSION
from compiler.inventory import snapshot
from runtime import errors, shapes

_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=317)]
_Labels = dict[_Word, Annotated[str, msgspec.Meta(max_length=63)]]


class _Taint(shapes.Shape, frozen=True):
    key: _Word
    effect: _Word
    value: str = ""


class _Profile(shapes.Shape, frozen=True):
    discovered: bool
    architecture: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    labels: _Labels = msgspec.field(default_factory=dict)
    taints: tuple[_Taint, ...] = ()


class _Node(shapes.Shape, frozen=True):
    name: _Word
    profile: _Word
    hostname: str | None = None
    labels: _Labels = msgspec.field(default_factory=dict)


class _Spec(shapes.Shape, frozen=True):
    nodes: tuple[_Node, ...] = ()
    profiles: dict[_Word, _Profile] = msgspec.field(default_factory=dict)


class _Metadata(shapes.Shape, frozen=True):
    name: _Word


class _Document(shapes.Shape, frozen=True):
    api_version: str
    kind: Literal["NodeInventory"]
    metadata: _Metadata
    spec: _Spec


def nodes(content: bytes, cluster: str) -> tuple[snapshot.Node, ...]:
    """Return the nodes of this cluster's inventory; raise `errors.Failure` if it is another document."""
    # A damaged file does not mean that the cluster has no nodes, so a person must restore or delete it.
    try:
        document = msgspec.json.decode(content, type=_Document)
        if document.metadata.name != cluster:
            raise ValueError(f"it is that of '{document.metadata.name[:50]}'")
        if document.api_version != API_VERSION:
            raise ValueError(f"its apiVersion is not {API_VERSION}")
        profiles = {name: _profile(stated) for name, stated in document.spec.profiles.items()}
        found = {
            node.name: snapshot.Node(
                name=node.name,
                profile=profiles[node.profile],
                hostname=node.name if node.hostname is None else node.hostname or None,
                labels=node.labels,
            )
            for node in document.spec.nodes
        }
        if len(found) < len(document.spec.nodes):
            raise ValueError("it names a node twice")
        return tuple(found[name] for name in sorted(found))
    except KeyError as error:
        reason = f"it has no profile {str(error)[:50]}"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = " ".join(str(error).split())[:200]
    raise errors.Failure(f"The inventory of {cluster} in the repository is none ({reason}): restore it, or delete it.")


def _profile(stated: _Profile) -> snapshot.Profile:
    taints = tuple(snapshot.Taint(**structs.asdict(taint)) for taint in stated.taints)
    return snapshot.Profile(**structs.asdict(stated) | {"taints": taints})
