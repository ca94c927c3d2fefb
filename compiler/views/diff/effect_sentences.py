"""The effects of a change in sentences, for people: equal ones of several clusters share a sentence."""

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat

from compiler import wording
from compiler.changes.revisions.effects import Effect, Placement
from compiler.views.diff import driver_sentences
from compiler.views.diff.effect_groups import count, image, is_left_out, size, version, where


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
        return size(self.effects)

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
        (driver_sentences.key, driver_sentences.text),
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
    leaving = [effect for effect in effects if is_left_out(effect)]
    known = [effect for effect in effects if not is_left_out(effect)]
    lost = [
        f"{count(own)} {'loses' if size(own) == 1 else 'lose'} the {what}"
        for what, own in (
            ("driver", [effect for effect in known if effect.work == "removes"]),
            ("driver's installer", [effect for effect in known if effect.work == "leaves"]),
            ("device plugin", [effect for effect in known if effect.device_plugin_pod == "deleted"]),
        )
        if own
    ]
    left = f"{count(leaving)} {'leaves' if size(leaving) == 1 else 'leave'} the inventory. " if leaving else ""
    none = f"No {'other ' if left else ''}node ends up without its driver or its device plugin."
    return f"{left}{f'{wording.listed(lost)}.' if lost else none}"


def _membership_key(effect: Effect) -> Hashable:
    if effect.before is None:
        return ("joins",) if effect.recipe.builtin else None
    if effect.after is None:
        return "leaves", effect.work, effect.before.policy, effect.before.version
    return None


def _membership(group: Sequence[Effect]) -> str:
    was, many = group[0].before, size(group) > 1
    if was is None:
        return f"{count(group)} {'join' if many else 'joins'} the inventory{where(group)}."
    of = f" of policy {was.policy}" if was.policy else ""
    left = f"{count(group)}{of} {'leave' if many else 'leaves'} the inventory{where(group)}"
    if group[0].work == "leaves":
        return f"{left}, and driver {version(was)} stays on {'them' if many else 'it'} without an installer."
    counts = ", and count as gone with their pods" if many else ", and counts as gone with its pods"
    return f"{left}{counts if is_left_out(group[0]) else ''}."


def _plugin_key(effect: Effect) -> Hashable:
    if effect.device_plugin_pod is None or is_left_out(effect):
        return None
    return _plugged(effect.before), _plugged(effect.after), effect.device_plugin_pod


def _plugged(placement: Placement | None) -> Hashable:
    return None if placement is None or placement.device_plugin is None else (placement.policy, placement.device_plugin)


def _plugin(group: Sequence[Effect]) -> str:
    first, many = group[0], size(group) > 1
    old, new = (image(side.device_plugin if side else None) for side in (first.before, first.after))
    side = first.before if first.device_plugin_pod == "deleted" else first.after
    of = f" of policy {side.policy}" if side else ""
    who = f"{count(group)}{of}"
    place = where(group)
    match first.device_plugin_pod:
        case "created":
            return f"{who} {'get' if many else 'gets'} the device plugin {new}{place}."
        case "deleted":
            return f"{who} {'lose' if many else 'loses'} the device plugin {old}{place}."
        case _ if old != new:
            verb = "go" if many else "goes"
            return f"{who} {verb} from device plugin {old} to {new}{place}; running containers keep their devices."
        case _:
            pods = "new device-plugin pods" if many else "a new device-plugin pod"
            return f"{who} {'get' if many else 'gets'} {pods}{place}; running containers keep their devices."


def _offer_key(effect: Effect) -> Hashable:
    was, now = effect.before, effect.after
    if was is None or now is None or was.resources == now.resources:
        return None
    return now.policy, was.resources, now.resources


def _offer(group: Sequence[Effect]) -> str:
    was, now = (_amounts(side) for side in (group[0].before, group[0].after))
    verb = "offer" if size(group) > 1 else "offers"
    return f"{count(group)} {verb} {now} instead of {was}{where(group)}."


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
    verb = "move" if size(group) > 1 else "moves"
    return f"{count(group)} {verb} from {was} to {now}{where(group)}, and nothing of either runs there."
