"""Mutations of a document as data: near-valid ones along its schema, and ones that no schema foresees."""

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.fuzz import languages, words

_KEPT = ("apiVersion", "kind")
"""Fields whose every other value is refused before anything else is looked at."""


def near(chance: random.Random, data: Any) -> Any:
    """The document with other values, fields and items that its schema allows."""
    language = languages.of(data)
    if language is None:
        return data
    for _ in range(chance.choice((1, 1, 2, 2, 3, 5))):
        chance.choice(_NEAR)(chance, data, language)
    return data


def far(chance: random.Random, data: Any) -> Any:
    """The document with mistakes."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        data = chance.choice(_FAR)(chance, data)
    return data


def _replace(chance: random.Random, data: Any, language: languages.Language) -> None:
    found = [place for place in language.places(data, language.root) if place.key not in _KEPT]
    leaves = [place for place in found if not isinstance(place.holder[place.key], dict | list)]
    if leaves:
        place = chance.choice(leaves)
        place.holder[place.key] = language.value(chance, place.schema)


def _add(chance: random.Random, data: Any, language: languages.Language) -> None:
    found = list(language.gaps(data, language.root))
    if found:
        place = chance.choice(found)
        place.holder[place.key] = language.value(chance, place.schema)


def _append(chance: random.Random, data: Any, language: languages.Language) -> None:
    found = [place for place in language.places(data, language.root) if isinstance(place.holder[place.key], list)]
    if found:
        place = chance.choice(found)
        items = place.holder[place.key]
        item = copy.deepcopy(chance.choice(items)) if items and chance.random() < 0.3 else None
        items.insert(chance.randint(0, len(items)), item or language.value(chance, place.schema.get("items", {})))


def _omit(chance: random.Random, data: Any, language: languages.Language) -> None:
    found = [place for place in language.places(data, language.root) if isinstance(place.holder, dict)]
    optional = [place for place in found if place.key not in (*_KEPT, "name", "metadata")]
    if optional:
        place = chance.choice(optional)
        place.holder.pop(place.key, None)


_NEAR: Sequence[Callable[[random.Random, Any, languages.Language], None]] = (
    *(_replace, _replace, _add, _add, _append, _omit),
)

Slot = tuple[Any, Any]
"""The parent of a member, and its key or index."""


def _slots(data: Any) -> list[Slot]:
    """Every member below a value."""
    found: list[Slot] = []
    waiting = [data]
    while waiting:
        holder = waiting.pop()
        for key, item in languages.members(holder):
            found.append((holder, key))
            waiting.append(item)
    return found


def _at_a_slot(act: Callable[[random.Random, Slot, Any], None]) -> Callable[[random.Random, Any], Any]:
    def mutate(chance: random.Random, data: Any) -> Any:
        found = _slots(data)
        if not found:
            return words.sample(chance)
        act(chance, chance.choice(found), data)
        return data

    return mutate


@_at_a_slot
def _drop(_: random.Random, slot: Slot, __: Any) -> None:
    holder, key = slot
    del holder[key]


@_at_a_slot
def _rename(chance: random.Random, slot: Slot, data: Any) -> None:
    holder, key = slot
    if not isinstance(holder, dict):
        return
    text = str(key)
    at = chance.randint(0, len(text))
    others = [other for _, other in _slots(data) if isinstance(other, str)]
    name: Any = chance.choice(
        (
            *(text[:at] + text[at + 1 :], text[:at] + "x" + text[at:], text.swapcase(), text.lower(), text + " "),
            *(chance.choice(others or [""]), chance.choice(words.ODD), chance.choice((None, 1, True, 1.5))),
        )
    )
    items = [(name if other == key else other, value) for other, value in holder.items()]
    holder.clear()
    holder.update(items)


@_at_a_slot
def _swap(chance: random.Random, slot: Slot, data: Any) -> None:
    holder, key = slot
    other, name = chance.choice(_slots(data))
    first, second = copy.deepcopy(holder[key]), copy.deepcopy(other[name])
    holder[key] = second
    if name in other if isinstance(other, dict) else name < len(other):
        other[name] = first


@_at_a_slot
def _share(chance: random.Random, slot: Slot, data: Any) -> None:
    """The same value in two places, which YAML writes with an anchor; none inside itself."""
    holder, key = slot
    around = [of[name] for of, name in _slots(data)]
    apart = [value for value in around if value is not holder and not _holds(value, holder)]
    if apart:
        holder[key] = chance.choice(apart)


def _holds(value: Any, wanted: Any) -> bool:
    return any(holder[key] is wanted for holder, key in _slots(value))


@_at_a_slot
def _retype(chance: random.Random, slot: Slot, _: Any) -> None:
    holder, key = slot
    value = holder[key]
    forms = (str(value), [value], {"a": value})
    holder[key] = chance.choice(forms) if chance.random() < 0.25 else words.sample(chance)


@_at_a_slot
def _number(chance: random.Random, slot: Slot, _: Any) -> None:
    holder, key = slot
    value = chance.choice(words.NUMBERS)
    holder[key] = str(value) if chance.random() < 0.2 else value


@_at_a_slot
def _word(chance: random.Random, slot: Slot, _: Any) -> None:
    holder, key = slot
    word = chance.choice(words.ODD if chance.random() < 0.7 else words.PLAUSIBLE)
    value = holder[key]
    holder[key] = chance.choice((word, f"{value}{word}", f"{word}{value}")) if isinstance(value, str) else word


@_at_a_slot
def _unknown(chance: random.Random, slot: Slot, _: Any) -> None:
    holder, key = slot
    if isinstance(holder, dict):
        holder[chance.choice(words.ODD + words.PLAUSIBLE)] = copy.deepcopy(holder[key])
    else:
        item = words.sample(chance) if chance.random() < 0.7 else copy.deepcopy(holder[key])
        holder.insert(chance.randint(0, len(holder)), item)


@_at_a_slot
def _nest(chance: random.Random, slot: Slot, _: Any) -> None:
    holder, key = slot
    for _depth in range(chance.choice((2, 10, 58, 62, 64, 70, 150))):
        holder[key] = [holder[key]] if chance.random() < 0.5 else {"a": holder[key]}


_FAR: Sequence[Callable[[random.Random, Any], Any]] = (
    *(_drop, _drop, _rename, _rename, _swap, _swap, _retype, _retype, _number, _number, _word, _word, _word),
    *(_unknown, _share, _nest),
)
