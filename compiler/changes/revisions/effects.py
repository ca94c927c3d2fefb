"""The effect of a change on nodes: what each had, what it gets, and what happens to it on the way.

Both sides are plans, which equal the placement by the DaemonSet controller. Nodes to which the same happens share one
effect; a node to which nothing happens has none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from compiler import devices, recipes
from compiler.changes import objects
from compiler.changes.revisions import causes, intent, pods
from compiler.diagnostics import Span
from compiler.model import driver as drivers
from compiler.planning import images, plan

Work = Literal["installs", "swaps", "may-swap", "reloads", "functions", "removes", "leaves", "restarts", "cleared"]
"""The work of a driver installer on a node.

- installs: it comes to a node that had none, and brings a driver.
- swaps: it replaces the driver by one of another version or source.
- may-swap: its image is another one of the same version; it replaces the driver if the content differs.
- reloads: it loads the modules again, for other parameters or another kind of devices.
- functions: it makes or removes virtual functions.
- removes: it removes the driver.
- leaves: it ends, and the driver stays on the host without it.
- restarts: its pod is replaced, and the driver stays in use.
- cleared: its pod is replaced or ends, and no driver is there: the installer has removed it before.
"""

DISTURBING = ("swaps", "may-swap", "reloads", "functions", "removes")
"""The work for which no pod may hold a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The policy of a node, and what runs on it."""

    policy: str | None
    pool: str | None
    """The pool whose installer runs there; that of a policy without pools has the policy's name."""
    group: str | None
    """The frozen group, the wave or `rest`; None in a policy without groups."""
    group_sort: Literal["frozen", "wave", "rest"] | None
    driver: str | None
    """The image of its driver installer."""
    version: str | None
    """The version of its driver."""
    state: Literal["Present", "Absent"] | None
    device_plugin: str | None
    """The image of its device plugin."""
    resources: tuple[tuple[str, int | None], ...]
    """The resources that it offers, with their amounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The eviction of the pods that hold a device, or the wait for them, before the driver is taken out of use."""

    evicts: bool
    """False where the installer waits for them to end."""
    timeout_seconds: int
    most: int
    """The most pods of one node that can hold a device: its devices, times their sharing."""
    hosts_at_a_time: int
    """Over all pools of the policy in the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What happens to nodes of a cluster to which the same happens."""

    cluster: str
    recipe: str
    nodes: tuple[str, ...]
    before: Placement | None
    """None for nodes that the inventory did not have."""
    after: Placement | None
    """None for nodes that it has no more."""
    driver_pod: pods.Fate | None
    device_plugin_pod: pods.Fate | None
    work: Work | None
    """None where no driver installer is touched, and for nodes that the inventory of a cluster has no more."""
    reasons: tuple[str, ...]
    """The settings for which the driver is taken out of use: version, source, sriov, …"""
    images: tuple[str, ...]
    """Of a recipe's driver, the images that are other ones where it may be swapped; KAE's is in the installer's."""
    drain: Drain | None
    """None where no driver in use is touched."""
    cause: Span
    """The line that causes it: of a policy, a cluster or an inventory."""


@dataclass(frozen=True, slots=True)
class Half:
    """A side of a change for nodes that share a decision; without a decision the side does not have the nodes."""

    side: pods.Side | None
    decision: plan.Decision | None

    @property
    def driver(self) -> pods.DaemonSet | None:
        """The DaemonSet of the installer on the nodes."""
        return self._serving(0)

    @property
    def device_plugin(self) -> pods.DaemonSet | None:
        """The DaemonSet of the device plugin on the nodes."""
        return self._serving(1)

    def placement(self) -> Placement | None:
        """Return what the nodes have."""
        decision = self.decision
        if decision is None:
            return None
        # A group decides over the driver alone.
        group = decision.division.group(decision.node.name) if decision.division and decision.pool else None
        sorts: dict[type, Literal["frozen", "wave", "rest"]] = {
            drivers.Frozen: "frozen",
            drivers.Wave: "wave",
            type(None): "rest",
        }
        return Placement(
            policy=decision.policy.name if decision.policy else None,
            pool=decision.pool.name if decision.pool else None,
            group=group.name if group else None,
            group_sort=next(word for sort, word in sorts.items() if isinstance(group.declared, sort))
            if group
            else None,
            driver=decision.driver.image,
            version=self.driver.config["driverVersion"] if self.driver else None,
            state=decision.pool.driver.state if decision.pool else None,
            device_plugin=decision.device_plugin.image,
            resources=decision.resources,
        )

    @property
    def kinds(self) -> tuple[recipes.Kind, ...]:
        """The kinds of devices that the nodes have, as far as NFD has seen."""
        node, policy = (self.decision.node, self.decision.policy) if self.decision else (None, None)
        known = policy.recipe.kinds if policy else ()
        return tuple(kind for kind in known if node and node.label(kind.present) == "true")

    def _serving(self, component: int) -> pods.DaemonSet | None:
        key = pods.serving(self.decision)[component] if self.decision else None
        return self.side.daemon_sets[key] if self.side and key else None


def effects(
    before: pods.Side | None,
    after: pods.Side | None,
    templates: frozenset[objects.Ref],
    changed: Sequence[intent.DocumentChange],
) -> tuple[Effect, ...]:
    """Return what happens to the nodes of a cluster, recipe by recipe, sorted by the first node.

    `templates` are the workloads with another template, `changed` the documents that differ.
    """
    recipes = dict.fromkeys(name for side in (before, after) if side for name in side.recipes)
    return tuple(
        effect
        for name in recipes
        for effect in _of_recipe(before and before.of_recipe(name), after and after.of_recipe(name), templates, changed)
    )


def _of_recipe(
    before: pods.Side | None,
    after: pods.Side | None,
    templates: frozenset[objects.Ref],
    changed: Sequence[intent.DocumentChange],
) -> tuple[Effect, ...]:
    olds, news = _decisions(before), _decisions(after)
    found: dict[Effect, list[str]] = {}
    for (old, new), names in _shared(olds, news).items():
        left = Half(before, None if old is None else olds[old])
        right = Half(after, None if new is None else news[new])
        effect = _effect(left, right, templates, changed)
        if effect is not None:
            found.setdefault(effect, []).extend(names)
    made = [replace(effect, nodes=tuple(sorted(names))) for effect, names in found.items()]
    return tuple(sorted(made, key=lambda effect: effect.nodes))


def _decisions(side: pods.Side | None) -> Sequence[plan.Decision]:
    return side.planned.decisions if side else ()


def _shared(
    before: Sequence[plan.Decision], after: Sequence[plan.Decision]
) -> Mapping[tuple[int | None, int | None], list[str]]:
    """Return the names of the nodes that share a decision before and one after, by the indexes of the two."""
    earlier = {name: index for index, decision in enumerate(before) for name in decision.names}
    found: dict[tuple[int | None, int | None], list[str]] = {}
    for index, decision in enumerate(after):
        for name in decision.names:
            found.setdefault((earlier.pop(name, None), index), []).append(name)
    for name, number in earlier.items():
        found.setdefault((number, None), []).append(name)
    return found


def _effect(
    left: Half, right: Half, templates: frozenset[objects.Ref], changed: Sequence[intent.DocumentChange]
) -> Effect | None:
    """Return what happens to nodes with these decisions; None where nothing does."""
    was, now = left.placement(), right.placement()
    driver = pods.fate(left.driver, right.driver, templates)
    plugin = pods.fate(left.device_plugin, right.device_plugin, templates)
    if was == now and driver is None and plugin is None:
        return None
    side = right.side if right.decision else left.side
    recipe = side.planned.recipe.name if side else devices.KAE.name
    if recipe != devices.KAE.name and not any(place and place.policy for place in (was, now)):
        return None  # A node that comes or goes is told once.
    work, reasons = _work(left, right) if driver else (None, ())
    return Effect(
        cluster=side.planned.cluster.name if side else "",
        recipe=recipe,
        nodes=(),
        before=was,
        after=now,
        driver_pod=driver,
        device_plugin_pod=plugin,
        work=work,
        reasons=reasons,
        images=_exchanged(left, right) if work == "may-swap" and recipe != devices.KAE.name else (),
        drain=_drain(left, right) if work in DISTURBING else None,
        cause=causes.of(left.decision, right.decision, side, changed, is_driver=driver is not None),
    )


def _work(left: Half, right: Half) -> tuple[Work | None, tuple[str, ...]]:
    """Return what the installer does to the driver, and the settings for which it does."""
    if right.side is not None and right.decision is None:
        # Whether the node is still in the cluster, and with it its pods, is unknown.
        return None, ()
    if left.driver is None or right.driver is None:
        return _coming_or_going(left, right)
    was, now = left.driver.config, right.driver.config
    if now["state"] == "Absent":
        return ("cleared", ()) if was["state"] == "Absent" else ("removes", ("state",))
    if was["state"] == "Absent":
        return "installs", ("state",)
    replaced = tuple(name for name, part in _CONTENT.items() if part(was) != part(now))
    if replaced:
        return "swaps", replaced
    if reloaded := tuple(_reloaded(was, now, right.kinds)):
        return "reloads", reloaded
    if any(
        was["sriov"].get(kind.name) != now["sriov"].get(kind.name, was["sriov"].get(kind.name)) for kind in right.kinds
    ):
        return "functions", ("sriov",)
    if _images(left) != _images(right):
        return "may-swap", ("image",)
    if was["installPolicy"] != now["installPolicy"] == "Always":
        return "may-swap", ("INSTALL_POLICY",)
    return "restarts", ()


_CONTENT: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "version": lambda config: config["driverVersion"],
    "files": lambda config: config.get("files"),
    # Of a source, installer/decide compares the sort, and installer/sources/packages the names.
    "source": lambda config: [(sort, value.get("names")) for sort, value in config["source"].items()],
}
"""The settings of a config that say which driver it is."""


def _coming_or_going(left: Half, right: Half) -> tuple[Work | None, tuple[str, ...]]:
    if right.driver is not None:
        return ("removes", ("state",)) if right.driver.config["state"] == "Absent" else ("installs", ())
    config = left.driver.config if left.driver else {}
    if config.get("state") == "Absent":
        return "cleared", ()
    # An installer that cleans up asks for its own DaemonSet, and stays silent while that is there.
    going = right.side is None or left.driver not in right.side.daemon_sets.values()
    return ("removes", ("enabledCleanup",)) if config.get("enabledCleanup") and going else ("leaves", ())


def _reloaded(was: Mapping[str, Any], now: Mapping[str, Any], kinds: Iterable[recipes.Kind]) -> Iterator[str]:
    """Yield the settings for which modules are loaded again: parameters in force, and modules that are new."""
    present = {kind.module for kind in kinds if isinstance(kind, devices.Kind)}
    needed = [name for name in now["modules"] if name in present or "recipe" in now]
    if any(
        was["moduleParameters"].get(name) != now["moduleParameters"].get(name)
        for name in needed
        if name in was["modules"]
    ):
        yield "moduleParameters"
    if any(name not in was["modules"] for name in needed):
        yield "modules" if "recipe" in now else "operator"


def _images(half: Half) -> tuple[str, ...]:
    """Return the images that hold the driver without registries and paths: a mirror holds the same content."""
    pool = half.decision.pool if half.decision else None
    return tuple(map(images.unqualified, (pool.image, *(image for _, image in pool.payloads)))) if pool else ()


def _exchanged(left: Half, right: Half) -> tuple[str, ...]:
    """Return the images of the new driver that the old one does not have."""
    was = frozenset(_images(left))
    return tuple(image for image in _images(right) if image not in was)


def _drain(left: Half, right: Half) -> Drain:
    serving = right.driver or left.driver
    config: Mapping[str, Any] = serving.config if serving else {}
    return Drain(
        evicts=config["drain"]["enabled"],
        timeout_seconds=config["drain"]["timeoutSeconds"],
        most=sum(amount or 0 for _, amount in left.decision.resources) if left.decision else 0,
        hosts_at_a_time=len(config["leases"]["names"]),
    )
