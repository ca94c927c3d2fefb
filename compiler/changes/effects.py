"""The effect of a change on nodes: what each had, what it gets, and what happens to it on the way.

Both sides are plans, which equal the placement by the DaemonSet controller. Nodes to which the same happens share one
effect; a node to which nothing happens has none.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec import structs

from compiler import names, recipes
from compiler.changes import exchange, hardware, intent, objects, pods, sides
from compiler.diagnostics import Span
from compiler.fleet import assignment, definitions, injections
from compiler.formats import documents
from compiler.output import index_file
from compiler.planning import kernels, loaded, plan, pools
from runtime import driver_config, driver_work

Work = Literal["installs", "swaps", "may-swap", "reloads", "functions", "removes", "leaves", "restarts", "cleared"]
"""The work of a driver installer on a node.

- installs: it comes to a node that had none, or the node runs another kernel, and it brings a driver.
- swaps: it replaces the driver by one of another version or source.
- may-swap: it takes the driver out of use, or not, as the inventory cannot tell: whether the content of images
  differs, who installed the driver, which modules are loaded.
- reloads: it loads the modules again, for other parameters or another kind of devices.
- functions: it makes or removes virtual functions.
- removes: it removes the driver.
- leaves: it ends, and the driver stays on the host without it.
- restarts: its pod is replaced, and the driver stays in use.
- cleared: its pod is replaced or ends, and no driver is there: the installer has removed it before; or its pod comes
  to a node that joins, and removes a driver that is there.
"""

DISTURBING = ("swaps", "may-swap", "reloads", "functions", "removes")
"""The work for which no pod may hold a device."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of a node, and what runs on it."""

    policy: str | None
    pool: str | None
    """The pool whose installer runs there; that of a policy without pools has the policy's name."""
    group: str | None
    """The frozen group, the wave or `rest`; None in a policy without groups."""
    group_sort: Literal["frozen", "wave", "rest"] | None
    driver: str | None
    """The image of its driver installer; of a recipe, the one whose version is that of the driver."""
    version: str | None
    state: Literal["Present", "Absent"] | None
    device_plugin: str | None
    """The image of its device plugin."""
    programs: tuple[tuple[str, str], ...]
    """The images of vendors' programs, by their names."""
    resources: tuple[tuple[str, int | None], ...]
    interface: definitions.Interface | None
    """How the device plugin offers them."""
    injects: bool
    """True where a container gets variables, mounts or preloaded libraries with a device."""


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """The eviction of the pods that hold a device, or the wait for them, before the driver is taken out of use."""

    evicts: bool
    """False where the installer waits for them to end."""
    timeout_seconds: int
    most: int | None
    """The most pods of one node that can hold a device: its devices, times their sharing; None where it is unknown."""
    hosts_at_a_time: int
    """Of those on which a pod holds a device, over all pools of the policy in the cluster."""
    rolls: bool
    """True where the pods of a DaemonSet are replaced, which its maxUnavailable paces.

    One to which the nodes come makes all of its pods at once, and a host without a pod that holds a device waits for
    nobody.
    """


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to nodes of a cluster to which the same happens."""

    cluster: str
    recipe: recipes.Recipe
    nodes: tuple[str, ...]
    before: Placement | None
    """None for nodes that the inventory did not have."""
    after: Placement | None
    """None for nodes that it has no more."""
    driver_pod: pods.Fate | None
    daemon_set: objects.Ref | None
    """The DaemonSet of the driver installers that are on the nodes afterwards, or before where none is."""
    device_plugin_pod: pods.Fate | None
    program_pods: tuple[tuple[str, pods.Fate], ...]
    """What happens to the pods of vendors' programs, by their names."""
    work: Work | None
    """None where no driver installer is touched, and for nodes that the inventory of a cluster has no more."""
    reasons: tuple[str, ...]
    """The settings for which the driver is taken out of use: version, source, sriov, …"""
    images: tuple[str, ...]
    """Of a recipe's driver, the images for which it is swapped, or may be; KAE's is in the installer's."""
    kernels: tuple[str, str] | None
    """The kernels of nodes that have a driver and run another kernel than before, as they report them."""
    drain: Drain | None
    """None where no driver in use is touched."""
    may_lose: tuple[str, ...]
    """The nouns of what they lose if the changed match of the recipe does not take their hardware."""
    may_gain: bool
    """True where they get what the policy has if the changed match of the recipe takes their hardware."""
    standing: tuple[str, ...]
    """The DaemonSets whose pods stay on the nodes, although the output no longer has them, as nothing prunes it."""
    is_unseen: bool
    """True for nodes that the inventory of a cluster has no more: whether their pods are there is unknown."""
    is_loaded: bool
    """True for nodes whose labels show the version that they get: those that an earlier change had not reached yet."""
    cause: Span
    """The line that causes it: of a policy, a cluster or an inventory."""

    def __hash__(self) -> int:
        """Return a hash without that of the recipe, which has none."""
        return hash((self.before, self.after, self.work, self.reasons, self.cause))


class Half(msgspec.Struct, frozen=True):
    """A side of a change for nodes that share a decision; without a decision the side does not have the nodes."""

    side: sides.Planned | None
    decision: plan.Decision | None
    kernel: str = ""
    """The nodes' kernel, where that is another one on the other side."""
    machine: kernels.Machine = kernels.Machine("")
    """What mappings ask of the nodes, in the same case."""
    has_other: bool = False
    """True where they have another recipe's driver with a module of this one's."""
    has_own: bool = False
    """True where labels show the driver that they get on this side."""

    def serving(self, component: index_file.Component) -> objects.Ref | None:
        """Return the DaemonSet of a component on the nodes."""
        return self.side.serving(component, self.decision) if self.side else None

    @property
    def pool(self) -> pools.Pool | None:
        """The pool of the nodes."""
        return self.decision.pool if self.decision else None

    @property
    def config(self) -> driver_config.Config | None:
        """The config of the installer on the nodes."""
        pool, policy = (self.decision.pool, self.decision.policy) if self.decision else (None, None)
        return self.side.configs[policy.name, pool.name] if self.side and policy and pool else None

    def placement(self) -> Placement | None:
        """Return what the nodes have."""
        decision = self.decision
        if decision is None:
            return None
        # A group decides over drivers and programs of pools alone.
        group = decision.division.group(decision.node.name) if decision.division and decision.part else None
        return Placement(
            policy=decision.policy.name if decision.policy else None,
            pool=decision.part.name if decision.part else None,
            group=group.name if group else None,
            group_sort=group.sort if group else None,
            driver=decision.driver.image,
            version=self.config.driver_version if self.config else None,
            state=decision.pool.driver.state if decision.pool else None,
            device_plugin=decision.device_plugin.image,
            programs=tuple((name, landing.image) for name, landing in decision.programs if landing.image is not None),
            resources=decision.resources,
            interface=decision.interface,
            injects=decision.interface is not None
            and decision.policy is not None
            and injections.gives(decision.policy),
        )

    def booted(self, other: "Half") -> "Half":
        """Return this side with the kernel that the nodes have on the other one."""
        decision, division = self.decision, self.decision.division if self.decision else None
        if decision is None or division is None or self.side is None:
            return self
        node = decision.node
        labels = {**node.profile.labels, kernels.SYSTEM: other.machine.system, kernels.VERSION: other.machine.version}
        profile = structs.replace(node.profile, kernel_version=other.kernel, labels=labels)
        pool = division.pool(node._replace(profile=profile))
        if pool is not None and (division.policy.name, pool.name) not in self.side.configs:
            pool = None
        return structs.replace(self, decision=structs.replace(decision, pool=pool))

    @property
    def kinds(self) -> tuple[recipes.Kind, ...]:
        """The kinds of devices that the nodes have, as far as NFD has seen."""
        return assignment.kinds(self.decision.recipe.kinds, self.decision.node) if self.decision else ()

    @property
    def guests(self) -> frozenset[str]:
        """The kinds of which the nodes have virtual functions alone, which have none of their own."""
        label = self.decision.node.label if self.decision else lambda _: None
        return frozenset(kind.name for kind in self.kinds if label(kind.vf_count) and not label(kind.pf_count))


def effects(
    before: sides.Planned | None,
    after: sides.Planned | None,
    templates: frozenset[objects.Ref],
    changed: Sequence[intent.DocumentChange],
) -> tuple[Effect, ...]:
    """Return what happens to the nodes of a cluster, recipe by recipe, sorted by the first node.

    `templates` are the workloads with another template, `changed` the documents that differ.
    """
    found: list[Effect] = []
    own = {one.recipe.name: one.recipe for side in (before, after) if side for one in side.planned.recipes}
    for recipe in own.values():
        alike: dict[Effect, list[str]] = {}
        shift = hardware.shift(*(side.rules.get(recipe.name, {}) if side else {} for side in (before, after)))
        for halves, nodes in _halves(before, after, recipe, _shared(before, after, recipe)):
            effect = _effect(recipe, halves, templates, changed, shift)
            if effect is not None:
                alike.setdefault(effect, []).extend(nodes)
        made = [structs.replace(effect, nodes=tuple(sorted(nodes))) for effect, nodes in alike.items()]
        found.extend(sorted(made, key=lambda effect: effect.nodes))
    return tuple(found)


def _shared(before: sides.Planned | None, after: sides.Planned | None, recipe: recipes.Recipe) -> frozenset[str]:
    """Return the nodes that have a driver of another recipe with a module of this one's."""
    wanted = {
        module
        for one in (after.planned.recipes if after else ())
        if one.recipe.name == recipe.name
        for decision in one.decisions
        if (config := Half(after, decision).config) is not None
        for module in (*config.names, *config.replaced)
    }
    return frozenset(
        name
        for one in (before.planned.recipes if before else ())
        if one.recipe.name != recipe.name
        for decision in one.decisions
        if (config := Half(before, decision).config) is not None and config.state == "Present"
        if not wanted.isdisjoint(config.names)
        for name in decision.names
    )


def _halves(
    before: sides.Planned | None, after: sides.Planned | None, recipe: recipes.Recipe, shared: frozenset[str]
) -> Iterator[tuple[tuple[Half, Half], list[str]]]:
    """Yield the decisions that nodes share before and after, with the names of the nodes."""
    olds, news = (plan.of_recipe(side.planned, recipe).decisions if side else () for side in (before, after))
    earlier = {node.name: (index, node.profile) for index, decision in enumerate(olds) for node in decision.nodes}
    found: dict[tuple[int | None, int | None, tuple[_Booted, _Booted], bool, bool], list[str]] = {}
    for index, decision in enumerate(news):
        having = loaded.having(decision)
        for node in decision.nodes:
            number, profile = earlier.pop(node.name, (None, node.profile))
            was, now = profile.kernel_version, node.profile.kernel_version
            booted = ((was, kernels.machine(profile)), (now, kernels.machine(node.profile))) if was != now else _SAME
            key = number, index, booted, node.name in shared, node.name in having
            found.setdefault(key, []).append(node.name)
    for name, (number, _) in earlier.items():
        found.setdefault((number, None, _SAME, False, False), []).append(name)
    for (old, new, (first, second), has_other, has_own), nodes in found.items():
        left, right = None if old is None else olds[old], None if new is None else news[new]
        yield (Half(before, left, *first, has_other), Half(after, right, *second, has_own=has_own)), nodes


_Booted = tuple[str, kernels.Machine]
_SAME: tuple[_Booted, _Booted] = (("", kernels.Machine("")),) * 2


def _effect(
    recipe: recipes.Recipe,
    halves: tuple[Half, Half],
    templates: frozenset[objects.Ref],
    changed: Sequence[intent.DocumentChange],
    shift: hardware.Shift | None,
) -> Effect | None:
    """Return what happens to nodes with these decisions; None where nothing does."""
    left, right = halves
    may_lose, may_gain = hardware.doubts(right.decision, shift)
    was, now = left.placement(), right.placement()
    stays = right.side.left if right.side else frozenset[objects.Ref]()
    served = {
        component: (left.serving(component), right.serving(component))
        for half in halves
        for component in (half.decision.recipe.components if half.decision else recipe.components)
    }
    fates = {
        component: pods.fate(None if old in stays else old, new, templates) for component, (old, new) in served.items()
    }
    driver, plugin = fates.pop("driver"), fates.pop("device-plugin")
    going, coming = served["driver"]
    programs = tuple((name, fate) for name, fate in sorted(fates.items()) if fate is not None)
    booted = (left.kernel, right.kernel) if left.kernel != right.kernel and (left.config or right.config) else None
    if was == now and not (driver or plugin or programs or may_lose or may_gain or booted):
        return None
    side = right.side if right.decision else left.side
    if not recipe.builtin and not any(place and place.policy for place in (was, now)):
        return None  # A node that comes or goes is told once.
    done = _after_boot(left, right) if booted else _work(left, right) if driver else _Done()
    doubtful = (_MATCH,) if may_lose or may_gain else ()
    return Effect(
        cluster=side.planned.cluster.name if side else "",
        recipe=recipe,
        nodes=(),
        before=was,
        after=now,
        driver_pod=driver,
        daemon_set=coming or going,
        device_plugin_pod=plugin,
        program_pods=programs,
        work=done.work,
        reasons=done.reasons,
        images=() if recipe.builtin or _OF_IMAGES.isdisjoint(done.reasons) else done.images,
        kernels=booted,
        drain=_drain(left, right, done.reasons, rolls=going == coming) if done.work in DISTURBING else None,
        may_lose=may_lose,
        may_gain=may_gain,
        standing=tuple(old.name for old, _ in served.values() if old is not None and old in stays)
        if right.decision
        else (),
        is_unseen=right.side is not None and right.decision is None,
        is_loaded=right.has_own and done.work == "swaps" and done.reasons == ("version",),
        cause=_cause(
            left, right, changed, (*doubtful, *((_DRIVER, _PLUGIN) if driver else (_PLUGIN, _DRIVER)), _PROGRAMS)
        ),
    )


class _Done(NamedTuple):
    """What an installer does to the driver, and the settings for which it does."""

    work: Work | None = None
    reasons: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    """The images that are other ones."""


def _after_boot(left: Half, right: Half) -> _Done:
    """Return the work on nodes that have booted another kernel, at any time since the earlier inventory was taken.

    Until this change reaches them, they have what the earlier documents bring to that kernel.
    """
    was, now = left.booted(right), right.config
    if left.config is None or now is None or now.state == "Absent":
        return _work(left, right)
    if was.config is None or was.config.state == "Absent":
        return _Done("installs", ("kernel",))
    done = _work(was, right)
    return _Done("installs", ("kernel",)) if done.work in (None, "restarts") else done._replace(work="may-swap")


def _work(left: Half, right: Half) -> _Done:
    """Return what the installer does to the driver, and the settings for which it does."""
    if right.side is not None and right.decision is None:
        # Whether the node is still in the cluster, and with it its pods, is unknown.
        return _Done()
    was, now = left.config, right.config
    if was is None or now is None:
        return _coming_or_going(left, right)
    if now.state == "Absent" and was.state == "Present":
        return _Done("removes", ("state",))
    if now.state == "Absent":
        goes_further = was.install_policy != "Always" or not {*now.all_modules} <= {*was.all_modules}
        removes = now.install_policy == "Always" and goes_further
        return _Done("may-swap", (_install_policy(right),)) if removes else _Done("cleared")
    if was.state == "Absent":
        takes_over = was.install_policy != now.install_policy == "Always"
        return _Done("may-swap", (_install_policy(right),)) if takes_over else _Done("installs", ("state",))
    found: dict[Work, tuple[str, ...]] = {}
    exchanged = exchange.of(left.pool, right.pool)
    for work, setting in _settled(left, right, exchanged):
        found[work] = tuple(dict.fromkeys((*found.get(work, ()), setting)))
    for work in _STRONGEST:
        if work in found:
            # What is certain may not be all.
            reasons = tuple(dict.fromkeys((*found[work], *found.get("may-swap", ()))))
            return _Done(work, reasons, exchanged.images)
    return _Done("restarts")


_OF_IMAGES = frozenset({"image", "repository", "mirrors"})
CONTENT = _OF_IMAGES | {"payloads", "files"}
"""Settings that may bring a driver of other content."""

_STRONGEST: tuple[Work, ...] = ("swaps", "reloads", "functions", "may-swap")
"""The work of which one is told: what is certain comes first, the strongest of it before the others."""


def _settled(left: Half, right: Half, exchanged: exchange.Exchange) -> Iterator[tuple[Work, str]]:
    """Yield the work for each setting, from a host on which the earlier config was proved."""
    was, now = left.config, right.config
    if was is None or now is None:
        return
    for certain, setting in exchange.content(was, now, exchanged.changed):
        is_moved = setting == "image" and not certain
        yield ("swaps" if certain else "may-swap"), exchanged.setting if is_moved else setting
    if was.enabled_cleanup and _is_going(was, right):
        yield "swaps", "enabledCleanup"
    if was.install_policy != now.install_policy == "Always":
        yield "may-swap", _install_policy(right)
    if _counts_less(was, now):
        yield "may-swap", "presentWhen"
    known = exchange.proved(was, {kind.module for kind in right.kinds})
    # Of virtual functions none are made.
    none = {kind.name: now.sriov.get(kind.name, 0) for kind in now.kinds if kind.name in right.guests}
    for task in driver_work.tasks(now, structs.replace(known, functions={**known.functions, **none})):
        yield task.work if task.certain else "may-swap", task.setting


def _install_policy(half: Half) -> str:
    """Return the setting of the install policy, as the policy's kind names it."""
    policy = half.decision.policy if half.decision else None
    return (policy.written.install_policy if policy else None) or "installPolicy"


def _is_going(config: driver_config.Config, right: Half) -> bool:
    """Return whether no installer has the DaemonSet of an earlier one, which asks for its own before it cleans up."""
    if right.side is None:
        return True
    own = config.daemon_set
    is_left = objects.Ref(kind="DaemonSet", namespace=own.namespace, name=own.name) in right.side.left
    return not is_left and all(other.daemon_set != own for other in right.side.configs.values())


def _counts_less(was: driver_config.Config, now: driver_config.Config) -> bool:
    """Return whether less of what others installed counts as a driver; with Always, none of it does."""
    earlier, later = (getattr(config, "present_when", None) for config in (was, now))
    return earlier != later == "Serving" and was.install_policy == now.install_policy == "IfNotPresent"


def _coming_or_going(left: Half, right: Half) -> _Done:
    if right.config is not None:
        if right.config.state == "Absent":
            # A node that joins has no driver that anybody counts on.
            return _Done("removes", ("state",)) if left.decision else _Done("cleared")
        if left.has_other:
            return _Done("may-swap", ("recipe",))
        return _Done("may-swap", ("installer",)) if _may_have(left) else _Done("installs")
    config = left.config
    if config is None:
        return _Done("leaves")
    if config.state == "Absent":
        return _Done("cleared")
    is_cleaned = config.enabled_cleanup and _is_going(config, right)
    return _Done("removes", ("enabledCleanup",)) if is_cleaned else _Done("leaves")


def _may_have(half: Half) -> bool:
    """Return whether nodes without an installer may have a driver: of an earlier policy, or of others.

    No installer leaves with its driver, and the inventory does not tell. Nodes that join, and those on which NFD had
    found no hardware, have none that anybody counts on.
    """
    return half.decision is not None and half.decision.driver.obstacle not in ("hardware", "labels")


def _drain(left: Half, right: Half, reasons: Sequence[str], *, rolls: bool) -> Drain | None:
    config = right.config or left.config
    if "enabledCleanup" in reasons:
        config = left.config  # The installer that goes cleans up, by what it was told.
    if config is None:
        return None
    return Drain(
        evicts=config.drain.enabled,
        timeout_seconds=config.drain.timeout_seconds,
        # New virtual functions are offered when the host has had its turn.
        most=_most(left, left if "sriov" in reasons else right, config),
        hosts_at_a_time=len(config.leases.names),
        rolls=rolls,
    )


def _most(left: Half, right: Half, config: driver_config.Config) -> int | None:
    """Return the most pods that can hold a device, None where that is unknown.

    What is offered from now on may be taken before the turn of a host comes. Where ours serves none, another device
    plugin may, and of the queues of a device each pod may have one.
    """
    found: dict[str, list[int | None]] = {}
    for decision in (half.decision for half in (left, right) if half.decision):
        plugin = decision.policy.offered if decision.interface and decision.policy else None
        shared = plugin is not None and plugin.is_shared
        for name, amount in decision.resources:
            found.setdefault(name, []).append(None if shared else amount)
    if (config.resources or config.nodes) and not (left.decision and left.decision.resources):
        return None
    return _sum([None if None in amounts else max(each or 0 for each in amounts) for amounts in found.values()])


def _sum(amounts: Sequence[int | None]) -> int | None:
    """Return the sum of amounts; that with one that is unknown is unknown."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


_MATCH: documents.Path = ("spec", "match")
_DRIVER: documents.Path = ("spec", "driver")
_PLUGIN: documents.Path = ("spec", "devicePlugin")
_PROGRAMS: documents.Path = ("spec", "programs")
_SHARED: tuple[documents.Path, ...] = tuple(
    ("spec", field) for field in ("operator", "daemonSets", "images", "values", "rollout", "kernelMappings")
)


def _cause(left: Half, right: Half, changed: Sequence[intent.DocumentChange], parts: Iterable[documents.Path]) -> Span:
    """Return the line of a document that causes an effect; `parts` are the fields that are likely to."""
    before, after = left.decision, right.decision
    own = [item for item in changed if _is_of(item, before) or _is_of(item, after)]
    cause = intent.cause(own, (*_declarations(after), *_declarations(before), *parts, *_SHARED, ()))
    side = right.side if after else left.side
    if cause is not None or side is None:
        return cause or Span(file="")
    cluster = side.planned.cluster.name
    shared = [item for item in changed if (item.kind, item.name) == ("KAECluster", cluster)]
    policies = [item for item in changed if item.kind in names.POLICY_KINDS]
    is_known = before is not None and after is not None and before.node == after.node
    return intent.cause([*shared, *(policies if is_known else [])]) or Span(file=side.planned.inventory.file)


def _is_of(change: intent.DocumentChange, decision: plan.Decision | None) -> bool:
    """Return whether a policy that changed is the one of a decision, or its recipe has."""
    policy = decision.policy if decision else None
    if policy is None:
        return False
    called = (change.name, change.old_name)
    if change.kind == "Recipe":
        return policy.recipe.name in called
    return change.kind in names.POLICY_KINDS and policy.name in called


def _declarations(decision: plan.Decision | None) -> Iterator[documents.Path]:
    """Yield the paths of the group and of the mapping that nodes are in."""
    if decision is None or decision.division is None:
        return
    group = decision.division.group(decision.node.name)
    if group is not None and group.declared is not None:
        yield group.declared.path
    part = decision.part
    if part is not None and part.kernels is not None:
        yield part.kernels.mapping.path
