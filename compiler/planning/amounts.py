"""The extended resources that the kubelet of a node will advertise, as far as the inventory tells their amounts."""

from collections.abc import Iterator

from compiler import recipes
from compiler.fleet import definitions
from compiler.inventory import snapshot
from runtime import device_plugin_config

Resources = tuple[tuple[str, int | None], ...]
"""Each with its amount; None where only the node itself knows it."""


def of(policy: definitions.Policy, node: snapshot.Node, driven: definitions.Driver | None) -> Resources:
    """Return the resources of a node of a policy: devices times the containers that may share one.

    `driven` is the driver that is installed on the node, None if there is none. A driver of state Absent leaves no
    devices.
    """
    if driven is not None and driven.state == "Absent":
        return ()
    return tuple((name, amount) for name, amount in _of_plugin(policy, node, driven) if amount != 0)


def _of_plugin(
    policy: definitions.Policy, node: snapshot.Node, driven: definitions.Driver | None
) -> Iterator[tuple[str, int | None]]:
    kinds = {kind.name: kind for kind in policy.kinds}
    for resource in policy.offered.resources if policy.offered else ():
        match resource:
            case device_plugin_config.Token():
                yield resource.name, resource.count * resource.shares
            case device_plugin_config.Char():
                yield resource.name, None  # Its paths are on the node alone.
            case _ if resource.kind in kinds:
                wanted = driven.sriov.get(resource.kind) if driven is not None else None
                yield resource.name, _usable(kinds[resource.kind], node, wanted) * resource.shares
            case _:
                yield resource.name, None


def _usable(kind: recipes.Kind, node: snapshot.Node, wanted: int | None) -> int:
    """Return the number of functions of a kind that containers can have.

    A physical function with virtual functions is not advertised, its virtual functions are. Their number is `wanted`
    for each where the policy sets it; else the number that NFD counted, with every physical function taken as split.
    """
    pf, vf = functions(kind, node)
    return pf * (wanted or 1) if pf and wanted is not None else vf or pf


def functions(kind: recipes.Kind, node: snapshot.Node) -> tuple[int, int]:
    """Return the numbers of physical and of virtual functions of a kind that NFD counted on the node."""
    return _count(node.label(kind.pf_count)), _count(node.label(kind.vf_count))


def _count(value: str | None) -> int:
    return int(value) if value and value.isascii() and value.isdigit() else 0
