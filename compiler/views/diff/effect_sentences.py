"""The effects of a change in sentences, for people: equal ones of several clusters share a sentence."""

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat

from compiler import wording
from compiler.changes.effects import Effect, Placement
from compiler.planning import images

_CLUSTERS = 3
"""Clusters that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence on what happens to nodes."""

    text: str
    effects: tuple[Effect, ...]
    """The effects that it is about; each of their nodes is meant."""

    @property
    def nodes(self) -> tuple[tuple[str, str], ...]:
        """The nodes with their clusters, sorted."""
        return tuple(self._in_order())

    @property
    def size(self) -> int:
        """The number of the nodes."""
        return _size(self.effects)

    def named(self, most: int, *, with_clusters: bool) -> str:
        """Return the first names as a list, and the number of the others."""
        first = [f"{cluster}/{name}" if with_clusters else name for cluster, name in islice(self._in_order(), most)]
        more = self.size - len(first)
        return wording.listed([*first, f"{more} more"] if more else first)

    def _in_order(self) -> Iterator[tuple[str, str]]:
        # The nodes of an effect are sorted, so only as many are looked at as are wanted: there may be a million.
        return heapq.merge(*(zip(repeat(effect.cluster), effect.nodes, strict=False) for effect in self.effects))


def sentences(effects: Iterable[Effect]) -> tuple[Sentence, ...]:
    """Return the sentences on effects: on nodes that come and go, on drivers, on device plugins, on resources."""
    effects = tuple(effects)
    parts: tuple[tuple[Callable[[Effect], Hashable], Callable[[Sequence[Effect]], str]], ...] = (
        (_membership_key, _membership),
        (_driver_key, driver),
        (_plugin_key, _plugin),
        (_offer_key, _offer),
        (_move_key, _move),
    )
    return tuple(sentence for key, text in parts for sentence in _grouped(effects, key, text))


def _grouped(
    effects: Iterable[Effect], key: Callable[[Effect], Hashable], text: Callable[[Sequence[Effect]], str]
) -> Iterator[Sentence]:
    groups: dict[Hashable, list[Effect]] = {}
    for effect in effects:
        part = key(effect)
        if part is not None:
            groups.setdefault(part, []).append(effect)
    for group in groups.values():
        yield Sentence(text=text(group), effects=tuple(group))


def loss(effects: Iterable[Effect]) -> str:
    """Return the sentences on nodes that leave, and on what the others lose, also where they lose nothing."""
    effects = tuple(effects)
    leaving = [effect for effect in effects if _is_left_out(effect)]
    known = [effect for effect in effects if not _is_left_out(effect)]
    lost = [
        f"{_does(own, 'lose')} the {what}"
        for what, own in (
            ("driver", [effect for effect in known if effect.work == "removes"]),
            ("driver's installer", [effect for effect in known if effect.work == "leaves"]),
            ("device plugin", [effect for effect in known if effect.device_plugin_pod == "deleted"]),
        )
        if own
    ]
    left = f"{_does(leaving, 'leave')} the inventory. " if leaving else ""
    none = f"No {'other ' if left else ''}node ends up without its driver or its device plugin."
    return f"{left}{f'{wording.listed(lost)}.' if lost else none}"


def _membership_key(effect: Effect) -> Hashable:
    if effect.before is None:
        return ("joins",) if effect.recipe.builtin else None
    if effect.after is None:
        return "leaves", effect.work, effect.before.policy, effect.before.version
    return None


def _membership(group: Sequence[Effect]) -> str:
    was, many = group[0].before, _size(group) > 1
    if was is None:
        return f"{_does(group, 'join')} the inventory{_where(group)}."
    left = f"{_does(group, 'leave', was)} the inventory{_where(group)}"
    if group[0].work == "leaves":
        return f"{left}, and driver {_version(was)} stays on {'them' if many else 'it'} without an installer."
    counts = ", and count as gone with their pods" if many else ", and counts as gone with its pods"
    return f"{left}{counts if _is_left_out(group[0]) else ''}."


def _plugin_key(effect: Effect) -> Hashable:
    if effect.device_plugin_pod is None or _is_left_out(effect):
        return None
    return _plugged(effect.before), _plugged(effect.after), effect.device_plugin_pod


def _plugged(placement: Placement | None) -> Hashable:
    return None if placement is None or placement.device_plugin is None else (placement.policy, placement.device_plugin)


def _plugin(group: Sequence[Effect]) -> str:
    first = group[0]
    old, new = (image(side.device_plugin if side else None) for side in (first.before, first.after))
    side = first.before if first.device_plugin_pod == "deleted" else first.after
    place, kept = _where(group), "running containers keep their devices"
    match first.device_plugin_pod:
        case "created":
            return f"{_does(group, 'get', side)} the device plugin {new}{place}."
        case "deleted":
            return f"{_does(group, 'lose', side)} the device plugin {old}{place}."
        case _ if old != new:
            return f"{_does(group, 'go', side)} from device plugin {old} to {new}{place}; {kept}."
        case _:
            pods = "new device-plugin pods" if _size(group) > 1 else "a new device-plugin pod"
            return f"{_does(group, 'get', side)} {pods}{place}; {kept}."


def _offer_key(effect: Effect) -> Hashable:
    was, now = effect.before, effect.after
    if was is None or now is None or was.resources == now.resources:
        return None
    return now.policy, was.resources, now.resources


def _offer(group: Sequence[Effect]) -> str:
    was, now = (_amounts(side) for side in (group[0].before, group[0].after))
    return f"{_does(group, 'offer')} {now} instead of {was}{_where(group)}."


def _amounts(placement: Placement | None) -> str:
    offered = placement.resources if placement else ()
    texts = (f"{resource.rpartition('/')[2]}={'?' if amount is None else amount}" for resource, amount in offered)
    return wording.listed(texts).replace("none", "nothing")


def _move_key(effect: Effect) -> Hashable:
    was, now = effect.before, effect.after
    if was is None or now is None or was.policy == now.policy or effect.driver_pod or effect.device_plugin_pod:
        return None
    return was.policy, now.policy


def _move(group: Sequence[Effect]) -> str:
    was, now = (side.policy if side and side.policy else "no policy" for side in (group[0].before, group[0].after))
    return f"{_does(group, 'move')} from {was} to {now}{_where(group)}, and nothing of either runs there."


def _driver_key(effect: Effect) -> Hashable:
    """Return the value that effects of one sentence have in common; None where nothing happens to drivers."""
    # That an installer leaves with its node is said of the node.
    if effect.driver_pod is None or (effect.after is None and effect.work != "removes"):
        return None
    was, now = effect.before, effect.after
    pod = effect.driver_pod if effect.work == "cleared" else None
    versions = None if effect.work in ("restarts", "cleared") else (was and was.version, now and now.version)
    images = effect.images or (now.driver if now and effect.work == "may-swap" else None)
    drain = effect.drain and (effect.drain.evicts, effect.drain.timeout_seconds, effect.drain.hosts_at_a_time)
    moves = was and now and _moves(was, now) and (was.policy == now.policy and now.pool)
    return (
        was and was.policy,
        now and now.policy,
        effect.work,
        pod,
        effect.reasons,
        versions,
        images,
        effect.recipe.name,
        drain,
        moves,
    )


_WORK: Mapping[str, str] = {
    "installs": "get{s} driver {now}{place}",
    "swaps": "go{es} from driver {was} to {now}{place}",
    "changes": "get{s} {its} driver from another {reasons}{place}",
    "may-swap": "get{s} {image}{place}, and another driver if the content differs",
    "always": "replace{s} a driver that others installed{place}, as {reasons} is Always",
    "serving": "replace{s} a driver that others installed{place} if its devices have no entries in /sys/class/uacce",
    "payloads": "take{s} other paths of {its} images{place}, and get{s} another driver if the content differs",
    "reloads": "load{s} {its} modules again{place} for other {reasons}",
    "functions": "change{s} {its} virtual functions{place}",
    "removes": "lose{s} driver {was}{place}",
    "leaves": "keep{s} driver {was} without an installer{place}",
    "restarts": "get{s} {new_pod}{place}, and keep{s} {its} driver{plural}",
    "cleared": "get{s} {new_pod}{place}, which {has} removed the driver{plural} before",
    "ended": "lose{s} {its} installer pod{plural}{place}, which {has} removed the driver{plural} before",
}
"""The predicates by what the installer does."""

_ONE = {"s": "s", "es": "es", "its": "its", "has": "has", "plural": "", "new_pod": "a new installer pod"}
_SEVERAL = {"s": "", "es": "", "its": "their", "has": "have", "plural": "s", "new_pod": "new installer pods"}
"""The words of a predicate that follow the number of the nodes."""

_SETTINGS: Mapping[str, str] = {"moduleParameters": "module parameters", "operator": "kinds of devices"}
"""The words for settings whose names are no words of people."""

_MAY_SWAP: Mapping[str, str] = {"image": "may-swap", "payloads": "payloads", "presentWhen": "serving"}
"""The predicates of drivers that may be replaced, by the setting."""


def driver(group: Sequence[Effect]) -> str:
    """Return the sentence on effects with an equal key."""
    first = group[0]
    was, now = first.before, first.after
    work = str(first.work)
    if work == "swaps" and was and now and was.version == now.version:
        work = "changes"
    if work == "may-swap":
        work = _MAY_SWAP.get(first.reasons[0], "always")
    if work == "cleared" and first.driver_pod == "deleted":
        work = "ended"
    side = now if now is not None and now.driver is not None else was
    does = _WORK[work].format(
        was=_version(was),
        now=_version(now),
        image=_image(first),
        reasons=wording.listed(_SETTINGS.get(reason, reason) for reason in first.reasons),
        place=_place(group, is_after=side is now),
        **(_SEVERAL if _size(group) > 1 else _ONE),
    )
    return f"{_nodes(group, side)} {does}{_moved(group)}{_drained(group)}."


def _image(effect: Effect) -> str:
    """Return the installer of a driver, or the images of a recipe's driver that are other ones, after their nouns."""
    if effect.images:
        return f"the {wording.inflected('image', len(effect.images))} {wording.listed(map(image, effect.images))}"
    return f"the installer {image(effect.after.driver if effect.after else None)}"


def _place(group: Sequence[Effect], *, is_after: bool) -> str:
    """Return where nodes are: in a wave, a frozen group or the rest of their clusters, or in several of them."""
    sizes = Counter[tuple[str, str]]()
    for effect in group:
        side = effect.after if is_after else effect.before
        if side is not None and side.group is not None:
            sort = {"wave": "wave ", "frozen": "frozen group "}.get(str(side.group_sort), "group ")
            sizes[sort, side.group] += len(effect.nodes)
    if len(sizes) == 1:
        ((sort, name),) = sizes
        return f" in {sort}{name}{_where(group, 'of')}"
    counts = [f"{name} {size}" for (_, name), size in sorted(sizes.items(), key=lambda item: item[0][1])]
    return f"{_where(group)} ({', '.join(counts)})" if counts else _where(group)


def _moves(was: Placement | None, now: Placement | None) -> bool:
    """Return whether nodes with a driver come to another policy or pool."""
    if was is None or now is None or was.driver is None or now.driver is None:
        return False
    return (was.policy, was.pool) != (now.policy, now.pool)


def _moved(group: Sequence[Effect]) -> str:
    was, now = group[0].before, group[0].after
    if was is None or now is None or not _moves(was, now):
        return ""
    if was.policy != now.policy:
        return f", moving from policy {was.policy}"
    pools = sorted({effect.before.pool or "" for effect in group if effect.before})
    return f", moving from {wording.inflected('pool', len(pools))} {wording.listed(pools)} to pool {now.pool}"


def _drained(group: Sequence[Effect]) -> str:
    """Return the pace, and what becomes of the pods that hold a device."""
    drains = [effect.drain for effect in group if effect.drain is not None]
    if not drains:
        return ""
    drain, most = drains[0], max(each.most for each in drains)
    hosts = "one host" if drain.hosts_at_a_time == 1 else f"{drain.hosts_at_a_time} hosts"
    each = " in each cluster" if len(_clusters(group)) > 1 else ""
    pace = f", {hosts} at a time{each}" if _size(group) > 1 else ""
    device = group[0].recipe.words.device
    if not most:
        return f"{pace}; no pod holds {device} there"
    who = "it" if _size(group) == 1 else "each"
    held = f"{wording.counted(most, 'pod')} that hold{'s' if most == 1 else ''} {device}"
    if drain.evicts:
        return f"{pace}; {who} first evicts up to {held}"
    return f"{pace}; {who} waits up to {drain.timeout_seconds} s for up to {held}, and evicts none"


def _is_left_out(effect: Effect) -> bool:
    """Return whether an inventory has nodes no more whose workloads may stay; those of a cluster that is gone go."""
    return effect.after is None and effect.work not in ("removes", "leaves")


def _version(placement: Placement | None) -> str:
    """Return the version of a driver, of a digest the first digits."""
    own = placement.version if placement and placement.version else "-"
    return wording.cut(own[: len(images.DIGEST) + 12] if own.startswith(images.DIGEST) else own)


def image(reference: str | None) -> str:
    """Return an image without its registry."""
    return wording.cut(images.short(reference))


def _where(group: Sequence[Effect], preposition: str = "in") -> str:
    """Return the clusters of effects after a preposition; of many, their number."""
    names = _clusters(group)
    if len(names) > _CLUSTERS:
        return f" {preposition} {len(names)} clusters"
    return f" {preposition} {wording.inflected('cluster', len(names))} {wording.listed(names)}"


def _clusters(group: Iterable[Effect]) -> list[str]:
    return sorted({effect.cluster for effect in group})


def _size(group: Iterable[Effect]) -> int:
    return sum(len(effect.nodes) for effect in group)


def _nodes(group: Iterable[Effect], side: Placement | None = None) -> str:
    """Return the number of the nodes with its noun, and their policy on a side that has one."""
    counted = wording.counted(_size(group), "node")
    return f"{counted} of policy {side.policy}" if side and side.policy else counted


def _does(group: Sequence[Effect], verb: str, side: Placement | None = None) -> str:
    """Return the nodes with a verb that agrees with their number."""
    ending = "" if _size(group) != 1 else "es" if verb == "go" else "s"
    return f"{_nodes(group, side)} {verb}{ending}"
