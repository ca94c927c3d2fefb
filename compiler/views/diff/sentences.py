"""The effects of a change in sentences, which text, comment, annotations and page share.

Effects to which the same happens share a sentence, in whatever clusters they are: their keys are equal.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat

import msgspec
from msgspec import structs

from compiler import wording
from compiler.changes.effects import CONTENT, DISTURBING, Effect, Placement, Work
from compiler.planning import images

CHANGES: Mapping[str, str] = {
    "loses": "losing a component",
    "mayLose": "may lose a component",
    "gone": "leaving the inventory",
    "swaps": "changing the driver",
    "gets": "getting a component",
    "mayGet": "may get a component",
    "restarts": "pods restarting",
    "moves": "changed without a restart",
    "joins": "joining the inventory",
    "same": "unchanged",
}
"""What happens to a node by its key, in the order of the legend: what takes most away comes first."""

_RANKS = {key: rank for rank, key in enumerate(CHANGES)}

_OUT_OF_USE: Mapping[Work | None, str] = {
    "swaps": "driver swapped",
    "may-swap": "driver swapped if it differs",
    "reloads": "driver reloaded",
    "functions": "virtual functions changed",
}
"""What is done to a driver that is taken out of use."""

_DRIVER: Mapping[str, str] = {
    "installs": "get{s} {now}{place}",
    "swaps": "go{es} from {was} to {to}{place}",
    "changes": "get{s} {its} driver from another {reasons}{place}",
    "images": "get{s} {image}, with another driver{place}",
    "anew": "get{s} {its} driver anew{place} for other {reasons}",
    "may-swap": "get{s} {image}{place}, and another driver if the content differs",
    "elsewhere": "take{s} {its} driver from {where}{place}, and get{s} another one if the content differs",
    "unproved": "get{s} {now}{place}, in the place of one that is there if that is another one",
    "shared": "get{s} {now}{place}, once no driver of another recipe has modules of it there",
    "cleaned": "lose{s} {its} driver to enabledCleanup{place}, and get{s} it anew",
    "rid": "lose{s} a driver that others installed{place}, if there is one, as {reasons} is Always",
    "always": "replace{s} a driver that others installed{place}, as {reasons} is Always",
    "serving": "replace{s} a driver that others installed{place} if its devices have no entries in /sys/class/uacce",
    "payloads": "take{s} other paths of {its} images{place}, and get{s} another driver if the content differs",
    "unknown": "may load {its} modules again{place} for other {reasons}, as the inventory has not what is loaded",
    "reloads": "load{s} {its} modules again{place} for other {reasons}",
    "functions": "change{s} {its} virtual functions{place}",
    "removes": "lose{s} {was}{place}",
    "removes-any": "lose{s} a driver{place}, if there is one",
    "leaves": "keep{s} {was} without an installer{place}",
    "restarts": "get{s} {a}new installer pod{plural}{place}, and keep{s} {its} driver{plural}",
    "cleared": "get{s} {a}new installer pod{plural}{place}, which {were} to remove the driver{plural} before",
    "cleared-created": "get{s} {a}installer pod{plural}{place}, which remove{s} a driver that is there",
    "cleared-deleted": "lose{s} {its} installer pod{plural}{place}, which {were} to remove the driver{plural} before",
}
"""What the installer does to a driver, with the marks of `_said`."""

_MAY_SWAP: Mapping[str, str] = {
    "image": "may-swap",
    **dict.fromkeys(("repository", "mirrors"), "elsewhere"),
    "payloads": "payloads",
    "files": "payloads",
    "presentWhen": "serving",
    **dict.fromkeys(("installPolicy", "INSTALL_POLICY"), "always"),
    **dict.fromkeys(("version", "source"), "may-swap"),
    "installer": "unproved",
    "recipe": "shared",
}
"""The key in _DRIVER of drivers that may be replaced, by the setting."""

_CERTAIN: Mapping[Work | None, Collection[str]] = {
    "reloads": ("moduleParameters", "modules", "operator", "replaces", "nodes", "sriov"),
    "functions": ("sriov",),
}
"""The settings for which no more is done than this work; for others the driver may be replaced too."""

_ANEW: Mapping[tuple[str, ...], str] = {
    ("source",): "changes",
    ("image",): "images",
    ("enabledCleanup",): "cleaned",
}
"""The key in _DRIVER of drivers that are replaced by one of the same version, by the settings."""

_SETTINGS: Mapping[str, str] = {
    "moduleParameters": "module parameters",
    "operator": "kinds of devices",
    "files": "files on the host",
    "image": "images",
    "replaces": "modules that they replace",
    "nodes": "device nodes",
    "sriov": "virtual functions",
}
"""The words for settings whose names are no words of people."""

_ONE = {"s": "s", "es": "es", "its": "its", "it": "it", "a": "a ", "plural": "", "were": "was"}
_MANY = {"s": "", "es": "", "its": "their", "it": "them", "a": "", "plural": "s", "were": "were"}
"""What stands for the marks of a sentence on one node, and of one on several."""

_CLUSTERS = 3
"""Clusters that a sentence names."""


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence on what happens to nodes."""

    text: str
    effects: tuple[Effect, ...]
    """The effects that it is about; each of their nodes is meant."""

    @property
    def size(self) -> int:
        """The number of the nodes."""
        return _size(self.effects)

    @property
    def change(self) -> str:
        """The key in CHANGES of what all nodes have in common: the least that happens to any of them."""
        return max(map(change, self.effects), key=_RANKS.__getitem__)

    @property
    def label(self) -> str:
        """What happens, in a few words."""
        label = CHANGES[self.change]
        return _OUT_OF_USE.get(self.effects[0].work, label) if self.change == "swaps" else label

    def names(self, *, with_clusters: bool) -> Iterator[str]:
        """Yield the names of the nodes in order, behind those of their clusters or alone."""
        # The nodes of an effect are sorted, so only as many are looked at as are wanted: there may be a million.
        nodes = heapq.merge(*(zip(repeat(effect.cluster), effect.nodes, strict=False) for effect in self.effects))
        return (f"{cluster}/{name}" if with_clusters else name for cluster, name in nodes)


def change(effect: Effect) -> str:
    """Return the key in CHANGES of an effect."""
    programs = [fate for _, fate in effect.program_pods]
    fates = (effect.driver_pod, effect.device_plugin_pod, *programs)
    if effect.after is None:
        return "gone"
    if effect.before is None:
        return "joins"
    if effect.work in ("removes", "leaves") or "deleted" in (effect.device_plugin_pod, *programs):
        return "loses"
    if effect.may_lose:
        return "mayLose"
    if effect.work in DISTURBING:
        return "swaps"
    if "created" in fates or effect.work == "installs":
        return "gets"
    if effect.may_gain:
        return "mayGet"
    return "restarts" if "replaced" in fates else "moves"


def rank(effect: Effect) -> int:
    """Return the place of an effect in the order of CHANGES."""
    return _RANKS[change(effect)]


def changes(effects: Iterable[Effect]) -> Mapping[tuple[str, str], str]:
    """Return the key in CHANGES of each node, by cluster and name: of several recipes, the one that takes most away."""
    found: dict[tuple[str, str], str] = {}
    for effect in sorted(effects, key=rank, reverse=True):
        found.update(dict.fromkeys(((effect.cluster, name) for name in effect.nodes), change(effect)))
    return found


def by_danger(effects: Iterable[Effect]) -> Sequence[Sentence]:
    """Return the sentences on effects, those on what takes most away first."""
    return sorted(sentences(effects), key=lambda item: (_RANKS[item.change], -item.size))


def sentences(effects: Iterable[Effect]) -> tuple[Sentence, ...]:
    """Return the sentences on effects: on nodes that come and go, on drivers, plugins and programs, on resources."""
    effects = tuple(effects)
    programs = sorted({name for effect in effects for name, _ in effect.program_pods})
    parts: tuple[tuple[Callable[[Effect], Hashable], Callable[[Sequence[Effect]], str]], ...] = (
        (_membership_key, _membership),
        (_losing_key, _losing),
        (_getting_key, _getting),
        (_kernel_key, _kernel),
        (_standing_key, _standing),
        (_driver_key, driver),
        (_plugin_key, _plugin),
        *((partial(_program_key, name), partial(_program, name)) for name in programs),
        (_offer_key, _offer),
        (_move_key, _move),
    )
    return tuple(
        Sentence(text=f"{text(group)}.", effects=tuple(group)) for key, text in parts for group in _alike(effects, key)
    )


def _alike(effects: Iterable[Effect], key: Callable[[Effect], Hashable]) -> Iterable[Sequence[Effect]]:
    groups: dict[Hashable, list[Effect]] = {}
    for effect in effects:
        part = key(effect)
        if part is not None:
            groups.setdefault(part, []).append(effect)
    return groups.values()


def loss(effects: Iterable[Effect], barred: int) -> str:
    """Return the sentences on nodes that leave, and on what the others lose, also where they lose nothing.

    To so many `barred` nodes a NoSchedule taint lets no new pod come.
    """
    effects = tuple(effects)
    leaving = [effect for effect in effects if effect.is_unseen]
    known = [effect for effect in effects if not effect.is_unseen]
    lost = [
        _said(own, None, f"lose{{s}} the {what}")
        for what, own in (
            ("driver", [effect for effect in known if effect.work == "removes"]),
            ("driver's installer", [effect for effect in known if effect.work == "leaves"]),
            ("device plugin", [effect for effect in known if effect.device_plugin_pod == "deleted"]),
            *(
                (f"program {name}", [effect for effect in known if (name, "deleted") in effect.program_pods])
                for name in sorted({name for effect in known for name, _ in effect.program_pods})
            ),
        )
        if own
    ]
    if doubtful := [effect for effect in known if effect.may_lose or _may_remove(effect)]:
        lost.append(_said(doubtful, None, "may lose a component"))
    if barred:
        lost.append(f"{wording.counted(barred, 'node')} may lose a component by a taint")
    left = f"{_said(leaving, None, 'leave{s} the inventory')}. " if leaving else ""
    none = f"No {'other ' if left else ''}node ends up without its driver or its device plugin."
    return f"{left}{f'{wording.listed(lost)}.' if lost else none}"


def _may_remove(effect: Effect) -> bool:
    return effect.work == "may-swap" and effect.after is not None and effect.after.state == "Absent"


def _said(group: Sequence[Effect], side: Placement | None, does: str, **words: str) -> str:
    """Return a sentence without its full stop: so many nodes, perhaps of the policy of a side, and what they do.

    Its marks agree with the number of the nodes, as in `get{s}`, {place} is where they are, and others are `words`.
    """
    marks = _MANY if _size(group) > 1 else _ONE
    of = f" of policy {side.policy}" if side and side.policy else ""
    return f"{wording.counted(_size(group), 'node')}{of} {does.format(**{'place': _where(group), **marks, **words})}"


def _size(group: Iterable[Effect]) -> int:
    """Return the number of nodes; a node has an effect for each recipe."""
    group = tuple(group)
    if len({effect.recipe.name for effect in group}) > 1:
        return len({(effect.cluster, name) for effect in group for name in effect.nodes})
    return sum(len(effect.nodes) for effect in group)


def _clusters(group: Iterable[Effect]) -> list[str]:
    return sorted({effect.cluster for effect in group})


def _where(group: Sequence[Effect], preposition: str = "in") -> str:
    """Return the clusters of effects after a preposition; of many, their number."""
    names = _clusters(group)
    if len(names) > _CLUSTERS:
        return f" {preposition} {len(names)} clusters"
    return f" {preposition} {wording.inflected('cluster', len(names))} {wording.listed(names)}"


def _named(placement: Placement | None) -> str:
    """Return a driver with its version, as an object of a sentence."""
    version = _version(placement)
    return f"driver {version}" if version else "a driver of an unknown version"


def _version(placement: Placement | None) -> str:
    """Return the version of a driver, of a digest the first digits; empty for none that is known."""
    own = placement.version if placement and placement.version else ""
    return wording.cut(own[: len(images.DIGEST) + 12] if own.startswith(images.DIGEST) else own)


def _image(reference: str | None) -> str:
    return wording.cut(images.short(reference))


def _membership_key(effect: Effect) -> Hashable:
    if effect.before is None:
        return ("joins",) if effect.recipe.builtin else None
    if effect.after is None:
        return "leaves", effect.work, effect.before.policy, effect.before.version
    return None


def _membership(group: Sequence[Effect]) -> str:
    was = group[0].before
    if was is None:
        return _said(group, None, "join{s} the inventory{place}")
    if group[0].work == "leaves":
        end = ", and {was} stays on {it} without an installer"
    else:
        end = ", and count{s} as gone with {its} pods" if group[0].is_unseen else ""
    return _said(group, was, f"leave{{s}} the inventory{{place}}{end}", was=_named(was))


def _losing_key(effect: Effect) -> Hashable:
    return (effect.after and effect.after.policy, effect.recipe.name, effect.may_lose) if effect.may_lose else None


def _losing(group: Sequence[Effect]) -> str:
    first = group[0]
    does = "may lose {its} {what}{place}: the new match of recipe {recipe} may not take {its} hardware"
    return _said(group, first.after, does, what=wording.listed(first.may_lose), recipe=first.recipe.name)


def _getting_key(effect: Effect) -> Hashable:
    return (effect.after and effect.after.policy, effect.recipe.name) if effect.may_gain else None


def _getting(group: Sequence[Effect]) -> str:
    first = group[0]
    does = "may get what {its} policy has{place}: the new match of recipe {recipe} may take more of {its} hardware"
    return _said(group, first.after, does, recipe=first.recipe.name)


def _standing_key(effect: Effect) -> Hashable:
    return (effect.before and effect.before.policy, effect.standing, effect.driver_pod) if effect.standing else None


def _standing(group: Sequence[Effect]) -> str:
    first = group[0]
    is_one = len(first.standing) == 1
    does = (
        f"keep{{s}} {wording.inflected('DaemonSet', len(first.standing))} {wording.listed(first.standing)}{{place}}, "
        f"which {'leaves' if is_one else 'leave'} the output and {'stays' if is_one else 'stay'} in the cluster, as "
        f"prune is off: delete {'it' if is_one else 'them'} by hand"
    )
    beside = "; until then two driver installers are there" if first.driver_pod == "created" else ""
    return f"{_said(group, first.before, does)}{beside}"


def _kernel_key(effect: Effect) -> Hashable:
    now = effect.after
    return (now.policy, now.version, now.driver, effect.kernels, effect.work) if effect.kernels and now else None


def _kernel(group: Sequence[Effect]) -> str:
    """Return the sentence on nodes that run another kernel: which installer brings its driver, or that none does."""
    first = group[0]
    was, now = first.kernels or ("", "")
    does = "run{s} kernel {now} instead of {was}{place}, "
    if first.after and first.after.driver is None:
        does += "for which {its} policy has no driver"
    elif first.after and first.after.state == "Absent":
        does += "where {its} driver is removed"
    else:
        does += "and get{s} {driver} for it from {image}, as far as that holds one"
    image = ("the installer " if first.recipe.builtin else "") + _image(first.after.driver if first.after else None)
    return _said(group, first.after, does, was=was, now=now, driver=_named(first.after), image=image)


def _driver_key(effect: Effect) -> Hashable:
    # That an installer leaves with its node is said of the node.
    if (
        effect.driver_pod is None
        or effect.reasons == ("kernel",)
        or (effect.after is None and effect.work != "removes")
    ):
        return None
    was, now = effect.before, effect.after
    policies = (was and was.policy, now and now.policy)
    pod = effect.driver_pod if effect.work == "cleared" else None
    versions = None if effect.work in ("restarts", "cleared") else (was and was.version, now and now.version)
    exchanged = effect.images or (now.driver if now and effect.work == "may-swap" else None)
    drain = effect.drain and structs.replace(effect.drain, most=None)
    moves = was and now and _moves(was, now) and (was.policy == now.policy and now.pool)
    return policies, effect.work, pod, effect.reasons, versions, exchanged, effect.recipe.name, drain, moves


def driver(group: Sequence[Effect]) -> str:
    """Return the sentence, without its full stop, on what happens to drivers and their installers."""
    first = group[0]
    was, now = first.before, first.after
    side = now if now is not None and now.driver is not None else was
    does = _said(
        group,
        side,
        _DRIVER[_driver_work(first)],
        was=_named(was),
        now=_named(now),
        to=_version(now) or "one of an unknown version",
        image=_driver_images(first),
        where=wording.listed(map(wording.cut, sorted(set(map(images.name, _exchanged(first)))))),
        reasons=wording.listed(_SETTINGS.get(reason, reason) for reason in _reasons(first)),
        place=_place(group, is_after=side is now),
    )
    return f"{does}{_doubt(first)}{_moved(group)}{_loaded(group)}{_drained(group)}"


def _doubt(effect: Effect) -> str:
    """Return what may be done beside what is certain."""
    others = set(effect.reasons).difference(_reasons(effect))
    if effect.work not in _CERTAIN or not others:
        return ""
    return (
        ", and another driver if the content of its images differs"
        if others <= CONTENT
        else ", and may get another driver"
    )


def _driver_work(effect: Effect) -> str:
    """Return the key in _DRIVER of an effect."""
    was, now = effect.before, effect.after
    if effect.work == "swaps" and was and now and (was.version == now.version or "version" not in effect.reasons):
        return _ANEW.get(effect.reasons, "anew")
    if _may_remove(effect):
        return "rid"
    if effect.work == "may-swap":
        return _MAY_SWAP.get(effect.reasons[0], "unknown")
    if effect.work == "removes" and not (was and was.version):
        return "removes-any"
    is_passing = effect.work == "cleared" and effect.driver_pod != "replaced"
    return f"cleared-{effect.driver_pod}" if is_passing else str(effect.work)


def _reasons(effect: Effect) -> Iterable[str]:
    """Return the settings that a sentence on a driver names: those that do the same as the first."""
    if effect.work in _CERTAIN:
        # What is certain comes first; of modules beside it nobody knows whether they are staged.
        first, *rest = (reason for reason in effect.reasons if reason in _CERTAIN[effect.work])
        return [first, *(reason for reason in rest if reason not in ("modules", "operator"))]
    if effect.work != "may-swap":
        return effect.reasons
    first = _MAY_SWAP.get(effect.reasons[0], "unknown")
    return [reason for reason in effect.reasons if _MAY_SWAP.get(reason, "unknown") == first]


def _driver_images(effect: Effect) -> str:
    """Return the installer of a driver, or the images of a recipe's driver that are other ones, after their nouns."""
    if effect.images:
        return f"the {wording.inflected('image', len(effect.images))} {wording.listed(map(_image, effect.images))}"
    return f"the installer {_image(effect.after.driver if effect.after else None)}"


def _exchanged(effect: Effect) -> tuple[str, ...]:
    """Return the images with the driver that are other ones: of KAE's, the installer's."""
    driver = effect.after.driver if effect.after else None
    return effect.images or ((driver,) if driver else ())


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


def _loaded(group: Sequence[Effect]) -> str:
    """Return how many of the nodes have what they get, as an earlier change had not reached them."""
    number = _size([effect for effect in group if effect.is_loaded])
    if not number:
        return ""
    those = "it" if _size(group) == 1 else "all of them" if number == _size(group) else f"{number} of them"
    return f", and labels in the inventory show {_version(group[0].after)} on {those} already"


def _drained(group: Sequence[Effect]) -> str:
    """Return the pace, and what becomes of the pods that hold a device."""
    drains = [effect.drain for effect in group if effect.drain is not None]
    if not drains:
        return ""
    drain, device = drains[0], group[0].recipe.words.device
    counts = [each.most for each in drains if each.most is not None]
    most = max(counts) if len(counts) == len(drains) else None
    several = _size(group) > 1
    idle = "as maxUnavailable allows" if drain.rolls else "all at once"
    if most == 0:
        return f"; no pod holds {device} there{f', so they change {idle}' if several else ''}"
    hosts = "one host" if drain.hosts_at_a_time == 1 else f"{drain.hosts_at_a_time} hosts"
    each = " in each cluster" if len(_clusters(group)) > 1 else ""
    pace = f", {hosts} at a time{each}; hosts without such pods change {idle}" if several else ""
    who = "each" if several else "it"
    held = f"up to {wording.counted(most, 'pod')}" if most is not None else "all pods"
    held = f"{held} that hold{'s' if most == 1 else ''} {device}"
    if drain.evicts:
        return f"; {who} first evicts {held}{pace}"
    return f"; {who} waits up to {drain.timeout_seconds} s for {held}, and evicts none{pace}"


def _plugin_key(effect: Effect) -> Hashable:
    if effect.device_plugin_pod is None or effect.is_unseen:
        return None
    return _plugged(effect.before), _plugged(effect.after), effect.device_plugin_pod, _unclaimed(effect)


def _plugged(placement: Placement | None) -> Hashable:
    if placement is None or placement.device_plugin is None:
        return None
    return placement.policy, placement.device_plugin, placement.interface, placement.injects


def _plugin(group: Sequence[Effect]) -> str:
    first = group[0]
    was, now = first.before, first.after
    old, new = (_image(side.device_plugin if side else None) for side in (was, now))
    match first.device_plugin_pod:
        case "created":
            does = "get{s} the device plugin {new}{place}"
        case "deleted":
            does = "lose{s} the device plugin {old}{place}"
        case _ if old != new:
            does = "go{es} from device plugin {old} to {new}{place}; running containers keep their devices"
        case _:
            does = "get{s} {a}new device-plugin pod{plural}{place}; running containers keep their devices"
    side = was if first.device_plugin_pod == "deleted" else now
    gone = _unclaimed(first)
    ends = f". A container that has {wording.listed(gone)} by a claim does not start again once it ends" if gone else ""
    return _said(group, side, f"{does}{_handover(was, now)}{ends}", old=old, new=new)


def _unclaimed(effect: Effect) -> tuple[str, ...]:
    """Return the resources that the container runtime does not find any more, by DRA; a kubelet remembers its own."""
    was, now = effect.before, effect.after
    if was is None or now is None or not was.interface == now.interface == "DRA":
        return ()
    return tuple(sorted(dict(was.resources).keys() - dict(now.resources).keys()))


def _handover(was: Placement | None, now: Placement | None) -> str:
    """Return what happens to devices where the interface changes."""
    old, new = (side.interface if side else None for side in (was, now))
    if old is None or new is None or old == new:
        return ""
    if new == "DRA":
        wins = ". Variables and mounts that come with a device then win over those of the pod"
        said = ". Devices are offered by DRA from then on, and one in use only when its container has ended"
    else:
        wins = ". Variables and mounts of a pod then win over those that come with a device"
        said = (
            ". Devices are offered by device plugins from then on, and what a claim has only when the claim has ended:"
            " until then the device plugin, its rights and its DeviceClasses have to stay"
        )
    return f"{said}{wins if now and now.injects else ''}"


def _program_key(name: str, effect: Effect) -> Hashable:
    fate = dict(effect.program_pods).get(name)
    if fate is None or effect.is_unseen:
        return None
    images = [dict(side.programs).get(name) if side else None for side in (effect.before, effect.after)]
    # Of pods that keep their image, no sentence names it.
    shown = (None, None) if fate == "replaced" and images[0] == images[1] else tuple(images)
    return effect.recipe.name, effect.before and effect.before.policy, effect.after and effect.after.policy, shown, fate


def _program(name: str, group: Sequence[Effect]) -> str:
    first = group[0]
    was, now, fate = first.before, first.after, dict(first.program_pods)[name]
    old, new = (_image(dict(side.programs).get(name) if side else None) for side in (was, now))
    match fate:
        case "created":
            does = "get{s} program {name} of recipe {recipe}, {new}{place}"
        case "deleted":
            does = "lose{s} program {name} of recipe {recipe}, {old}{place}"
        case _ if old != new:
            does = "go{es} from {old} to {new}, program {name} of recipe {recipe}{place}"
        case _:
            does = "get{s} {a}new pod{plural} of program {name} of recipe {recipe}{place}"
    return _said(group, was if fate == "deleted" else now, does, name=name, recipe=first.recipe.name, old=old, new=new)


def _offer_key(effect: Effect) -> Hashable:
    was, now = effect.before, effect.after
    if was is None or now is None or was.resources == now.resources or effect.standing:
        return None
    return now.policy, was.resources, now.resources


def _offer(group: Sequence[Effect]) -> str:
    is_short = group[0].recipe.builtin
    was, now = (_amounts(side, is_short=is_short) for side in (group[0].before, group[0].after))
    return _said(group, None, "offer{s} {now} instead of {was}{place}", was=was, now=now)


def _amounts(placement: Placement | None, *, is_short: bool) -> str:
    """Return what nodes offer; of KAE's resources, which have one domain, without it."""
    offered = placement.resources if placement else ()
    named = ((resource.rpartition("/")[2] if is_short else resource, amount) for resource, amount in offered)
    texts = (f"{resource}={'?' if amount is None else amount}" for resource, amount in named)
    return wording.listed(texts).replace("none", "nothing")


def _move_key(effect: Effect) -> Hashable:
    was, now = effect.before, effect.after
    if was is None or now is None or was.policy == now.policy or effect.standing:
        return None
    if effect.driver_pod or effect.device_plugin_pod or effect.program_pods:
        return None
    return was.policy, now.policy


def _move(group: Sequence[Effect]) -> str:
    was, now = (side.policy if side and side.policy else "no policy" for side in (group[0].before, group[0].after))
    does = "move{s} from {was} to {now}{place}, and nothing of either runs there"
    return _said(group, None, does, was=was, now=now)
