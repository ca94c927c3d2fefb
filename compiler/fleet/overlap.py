"""The overlap of two selectors, and the complement of a set of selectors.

The results hold for every node that could exist, with any label values that Kubernetes accepts, not only for the nodes
of an inventory.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.fleet import negation, selectors

MOST_TERMS = 64
"""The most terms that people can review in the node affinity of one policy."""

_MOST_BOXES = 4 * MOST_TERMS
"""The most terms in between, some of which still merge."""


@dataclass(frozen=True, slots=True)
class TooComplex:
    """The result of a complement that needs more terms than people can review."""

    keys: tuple[str, ...]
    """The keys of the terms, the most common first."""


def contradiction(a: selectors.Term, b: selectors.Term) -> str | None:
    """Return the first key, by name, whose requirements no node can meet together; None if the terms overlap."""
    allowed = selectors.by_key((*a, *b))
    return next((key for key in sorted(allowed) if allowed[key] == selectors.NOTHING), None)


def overlaps(terms: Sequence[selectors.Term]) -> Iterator[tuple[int, int, dict[str, str]]]:
    """Yield every two terms that overlap, as indexes in rising order, with labels that satisfy both."""
    keyed = [selectors.by_key(term) for term in terms]
    dividing = _dividing(keyed)
    for i, j in _pairs(keyed):
        a, b = keyed[i], keyed[j]
        # Nearly all pairs end here, before the search for a witness.
        if any(key in b and allowed.apart(b[key]) for key, allowed in dividing[i]):
            continue
        both = {key: allowed.meet(b.get(key, selectors.ANYTHING)) for key, allowed in a.items()}
        shared = selectors.example({**b, **both})
        if shared is not None:
            yield i, j, shared


def _dividing(keyed: Sequence[Mapping[str, selectors.Allowed]]) -> list[list[tuple[str, selectors.Allowed]]]:
    """Return the requirements of each term without those by which no two terms are apart.

    Such are the ones that all terms have in common, and those on keys that every term allows to be absent.
    """
    sets: defaultdict[str, set[selectors.Allowed]] = defaultdict(set)
    for allowed in keyed:
        for key, one in allowed.items():
            sets[key].add(one)
    keys = {key for key, own in sets.items() if len(own) > 1 and not all(one.absent for one in own)}
    return [[(key, one) for key, one in allowed.items() if key in keys] for allowed in keyed]


def _pairs(keyed: Sequence[Mapping[str, selectors.Allowed]]) -> list[tuple[int, int]]:
    """Return every two terms that may overlap, in rising order.

    Usually all terms list values of one key, such as `pool`: then only terms with a common value can overlap.
    """
    listed = Counter(key for allowed in keyed for key, one in allowed.items() if one.values is not None)
    if not listed:
        return list(itertools.combinations(range(len(keyed)), 2))
    shared = min(listed, key=lambda key: (-listed[key], key))
    by_value: defaultdict[str | None, list[int]] = defaultdict(list)
    loose = []
    for index, allowed in enumerate(keyed):
        one = allowed.get(shared, selectors.ANYTHING)
        if one.values is None:
            loose.append(index)
        for value in (*(one.values or ()), *((None,) if one.absent else ())):
            by_value[value].append(index)
    pairs = {pair for group in by_value.values() for pair in itertools.combinations(sorted(set(group)), 2)}
    pairs.update((min(i, j), max(i, j)) for i in loose for j in range(len(keyed)) if i != j)
    return sorted(pairs)


def complement(terms: Iterable[selectors.Term]) -> tuple[selectors.Term, ...] | TooComplex:
    """Return sorted terms for the nodes that none of the given terms matches; they match no other node.

    Requirements can express the negation of Gt and Lt for integers and absent labels only. Neither the terms nor the
    complement match a node whose label has another value.
    """
    keyed = [selectors.by_key(term) for term in terms]
    boxes = frozenset(_box(allowed) for allowed in keyed if selectors.NOTHING not in allowed.values())
    try:
        rest = negation.Negation(_MOST_BOXES).of(boxes)
    except negation.TooManyError:
        return _too_complex(boxes)
    if len(rest) > MOST_TERMS:
        return _too_complex(boxes)
    return tuple(sorted(tuple(sorted(_requirements(box))) for box in rest))


def _too_complex(boxes: frozenset[negation.Box]) -> TooComplex:
    uses = Counter(key for box in boxes for key, _ in box)
    return TooComplex(tuple(sorted(uses, key=lambda key: (-uses[key], key))))


def _box(allowed: dict[str, selectors.Allowed]) -> negation.Box:
    return tuple((key, allowed[key]) for key in sorted(allowed) if allowed[key] != selectors.ANYTHING)


def _requirements(box: negation.Box) -> Iterator[selectors.Requirement]:
    """Yield the requirements that express the box."""
    for key, allowed in box:
        if allowed == selectors.ABSENT:
            yield selectors.Requirement(key, "DoesNotExist")
        elif allowed.values is not None:
            yield selectors.Requirement(key, "In", tuple(sorted(allowed.values)))
        elif allowed.integers is not None:
            low, high = allowed.integers
            if low > 0:
                yield selectors.Requirement(key, "Gt", (str(low - 1),))
            if high < selectors.INT64_MAX:
                yield selectors.Requirement(key, "Lt", (str(high + 1),))
        elif not allowed.absent:
            yield selectors.Requirement(key, "Exists")
        if allowed.barred:
            yield selectors.Requirement(key, "NotIn", tuple(sorted(allowed.barred)))
