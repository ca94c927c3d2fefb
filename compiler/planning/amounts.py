"""The extended resources that the kubelet of a node will advertise, as far as the inventory tells their amounts."""

from collections.abc import Iterator

from compiler import devices, recipes
from compiler.fleet import definitions
from compiler.inventory import snapshot
from compiler.model import driver as drivers

Resources = tuple[tuple[str, int | None], ...]
"""Each with its amount; None where only the node itself knows it."""


def of(policy: definitions.Policy, node: snapshot.Node, driven: drivers.Driver | None) -> Resources:
    """Return the resources of a node of a policy: devices times the containers that may share one.

    `driven` is the driver that is installed on the node, None if there is none. A driver of state Absent leaves no
    devices.
    """
    if driven is not None and driven.state == "Absent":
        return ()
    found = _of_recipe(policy, node) if definitions.offer(policy.spec.devicePlugin) else _of_kae(policy, node, driven)
    return tuple((name, amount) for name, amount in found if amount != 0)


def _of_kae(
    policy: definitions.Policy, node: snapshot.Node, driven: drivers.Driver | None
) -> Iterator[tuple[str, int | None]]:
    plugin = policy.spec.devicePlugin
    for kind in policy.kinds:
        if isinstance(kind, devices.Kind):
            name = kind.resource if getattr(plugin.mode, kind.name) == "uacce" else kind.vfio_resource
            wanted = getattr(driven.sriov, kind.name) if driven is not None else None
            yield name, _usable(kind, node, wanted) * getattr(plugin.sharing, kind.name)


def _of_recipe(policy: definitions.Policy, node: snapshot.Node) -> Iterator[tuple[str, int | None]]:
    from compiler.fleet import offers  # noqa: PLC0415 - projects without DevicePolicies need none of its models

    kinds = {kind.name: kind for kind in policy.kinds}
    for offer in offers.of(policy):
        resource = offer.resource
        # The paths of class char are on the node alone.
        count = resource.count if resource.class_ == "token" else None
        if resource.kind in kinds and resource.class_ in ("uacce", "vfio"):
            count = _usable(kinds[resource.kind], node, None)
        yield offer.name, count * resource.shares if count is not None else None


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
