"""The sentences on what happens to drivers and their installers."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from compiler import wording
from compiler.changes.revisions.effects import Effect, Placement
from compiler.views.diff.effect_groups import clusters, count, image, size, version, where


def key(effect: Effect) -> Hashable:
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


_WORK: Mapping[str, tuple[str, str]] = {
    "installs": ("gets driver {now}{place}", "get driver {now}{place}"),
    "swaps": ("goes from driver {was} to {now}{place}", "go from driver {was} to {now}{place}"),
    "changes": ("gets its driver from another {reasons}{place}", "get their driver from another {reasons}{place}"),
    "may-swap": (
        "gets {image}{place}, and another driver if the content differs",
        "get {image}{place}, and another driver if the content differs",
    ),
    "always": (
        "replaces a driver that others installed{place}, as {reasons} is Always",
        "replace a driver that others installed{place}, as {reasons} is Always",
    ),
    "serving": (
        "replaces a driver that others installed{place} if its devices have no entries in /sys/class/uacce",
        "replace a driver that others installed{place} if its devices have no entries in /sys/class/uacce",
    ),
    "payloads": (
        "takes other paths of its images{place}, and gets another driver if the content differs",
        "take other paths of their images{place}, and get another driver if the content differs",
    ),
    "reloads": (
        "loads its modules again{place} for other {reasons}",
        "load their modules again{place} for other {reasons}",
    ),
    "functions": ("changes its virtual functions{place}", "change their virtual functions{place}"),
    "removes": ("loses driver {was}{place}", "lose driver {was}{place}"),
    "leaves": ("keeps driver {was} without an installer{place}", "keep driver {was} without an installer{place}"),
    "restarts": (
        "gets a new installer pod{place}, and keeps its driver",
        "get new installer pods{place}, and keep their drivers",
    ),
    "cleared": (
        "{pod}{place}, which has removed the driver before",
        "{pod}{place}, which have removed the drivers before",
    ),
}
"""The predicates for one node and for several, by what the installer does."""

_PODS = (
    ("gets a new installer pod", "get new installer pods"),
    ("loses its installer pod", "lose their installer pods"),
)

_SETTINGS: Mapping[str, str] = {"moduleParameters": "module parameters", "operator": "kinds of devices"}
"""The words for settings whose names are no words of people."""


_MAY_SWAP: Mapping[str, str] = {"image": "may-swap", "payloads": "payloads", "presentWhen": "serving"}
"""The predicates of drivers that may be replaced, by the setting."""


def text(group: Sequence[Effect]) -> str:
    """Return the sentence on effects with an equal key."""
    first = group[0]
    was, now = first.before, first.after
    work = str(first.work)
    if work == "swaps" and was and now and was.version == now.version:
        work = "changes"
    if work == "may-swap":
        work = _MAY_SWAP.get(first.reasons[0], "always")
    side = now if now is not None and now.driver is not None else was
    does = _WORK[work][size(group) > 1].format(
        was=version(was),
        now=version(now),
        image=_image(first),
        pod=_PODS[first.driver_pod == "deleted"][size(group) > 1],
        reasons=wording.listed(_SETTINGS.get(reason, reason) for reason in first.reasons),
        place=_place(group, is_after=side is now),
    )
    of = f" of policy {side.policy}" if side else ""
    return f"{count(group)}{of} {does}{_moved(group)}{_drained(group)}."


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
        return f" in {sort}{name}{where(group, 'of')}"
    counts = [f"{name} {size}" for (_, name), size in sorted(sizes.items(), key=lambda item: item[0][1])]
    return f"{where(group)} ({', '.join(counts)})" if counts else where(group)


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
    each = " in each cluster" if len(clusters(group)) > 1 else ""
    pace = f", {hosts} at a time{each}" if size(group) > 1 else ""
    if not most:
        return f"{pace}; no pod holds {_device(group[0])} there"
    who = "it" if size(group) == 1 else "each"
    held = f"{wording.counted(most, 'pod')} that hold{'s' if most == 1 else ''} {_device(group[0])}"
    if drain.evicts:
        return f"{pace}; {who} first evicts up to {held}"
    return f"{pace}; {who} waits up to {drain.timeout_seconds} s for up to {held}, and evicts none"


def _device(effect: Effect) -> str:
    return effect.recipe.words.device
