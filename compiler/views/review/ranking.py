"""The sentences on a change in the order of danger: what takes most away comes first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.changes.effects import DISTURBING, Effect
from compiler.views.diff import effect_sentences

CHANGES: Mapping[str, str] = {
    "loses": "losing a component",
    "gone": "leaving the inventory",
    "swaps": "driver taken out of use",
    "gets": "getting a component",
    "restarts": "pods restarting",
    "moves": "changed without a restart",
    "joins": "joining the inventory",
    "same": "unchanged",
}
"""What happens to a node by its key, in the order of the legend: what takes most away comes first."""

_RANKS = {key: rank for rank, key in enumerate(CHANGES)}


@dataclass(frozen=True, slots=True)
class Ranked:
    """A sentence on what happens to nodes, with its key in CHANGES."""

    change: str
    sentence: effect_sentences.Sentence


def change(effect: Effect) -> str:
    """Return the key in CHANGES of an effect."""
    fates = (effect.driver_pod, effect.device_plugin_pod)
    if effect.after is None:
        return "gone"
    if effect.before is None:
        return "joins"
    if effect.work in ("removes", "leaves") or effect.device_plugin_pod == "deleted":
        return "loses"
    if effect.work in DISTURBING:
        return "swaps"
    if "created" in fates:
        return "gets"
    return "restarts" if "replaced" in fates else "moves"


def sentences(effects: Sequence[Effect]) -> Sequence[Ranked]:
    """Return the sentences on effects, those on what takes most away first."""
    # What all nodes of a sentence have in common is the least that happens to any of them.
    ranked = [
        Ranked(max(map(change, item.effects), key=_RANKS.__getitem__), item)
        for item in effect_sentences.sentences(effects)
    ]
    return sorted(ranked, key=lambda item: (_RANKS[item.change], -item.sentence.size))
