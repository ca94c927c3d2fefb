"""The overlap of two selectors, and the complement of a set of selectors.

The results hold for every node that could exist, with any label values that Kubernetes accepts, not only for the nodes
of an inventory. The work of a complement is counted, not timed, so that the result is the same on every machine.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

import msgspec

from compiler.fleet import selectors

MOST_TERMS = 64
"""The most terms that people can review in the node affinity of one policy."""

_MOST_BOXES = 4 * MOST_TERMS
"""The most terms in between, some of which still merge."""

Box = tuple[tuple[str, selectors.Allowed], ...]
"""A term that some node satisfies: the allowed values by key, sorted, without keys that allow anything."""

_MOST_KEYS = 200
"""The most connected keys; each takes up to three frames of Python's stack, which holds 1000."""
MOST_WORK = 1_000_000
"""The most requirements and values that all steps together look at, about two seconds."""


class TooComplex(msgspec.Struct, frozen=True):
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
        rest = Negation(_MOST_BOXES).of(boxes)
    except TooManyError:
        return _too_complex(boxes)
    if len(rest) > MOST_TERMS:
        return _too_complex(boxes)
    return tuple(sorted(tuple(sorted(_requirements(box))) for box in rest))


def _too_complex(boxes: frozenset[Box]) -> TooComplex:
    uses = Counter(key for box in boxes for key, _ in box)
    return TooComplex(tuple(sorted(uses, key=lambda key: (-uses[key], key))))


def _box(allowed: dict[str, selectors.Allowed]) -> Box:
    return tuple((key, allowed[key]) for key in sorted(allowed) if allowed[key] != selectors.ANYTHING)


def _requirements(box: Box) -> Iterator[selectors.Requirement]:
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


class TooManyError(Exception):
    """The negation grew beyond its bounds."""


class Negation:
    """The negation of unions of boxes, with one limit on the work of all recursive calls.

    Each step first takes out what needs no decision: requirements that another box makes superfluous, and those that
    all boxes have in common. Then it decides one key: its possible values fall into cells that no box divides, and the
    boxes of each cell leave a smaller problem with the other keys. Multiplying out the negated boxes would double the
    work with each box.
    """

    def __init__(self, most_boxes: int) -> None:
        """Take the most boxes that a part of the problem may need; some of them may still merge."""
        self._known: dict[frozenset[Box], frozenset[Box]] = {}
        self._most_boxes = most_boxes
        self.work = 0

    def of(self, boxes: frozenset[Box]) -> frozenset[Box]:
        """Return boxes that together cover everything outside these boxes."""
        if () in boxes:
            return frozenset()
        self._spend(_size(boxes))
        if boxes not in self._known:
            reduced = self._reduced(boxes)
            parts = [frozenset[Box]()] if () in reduced else [self._part(part) for part in _independent(reduced)]
            self._spend(len(boxes), boxes=math.prod(map(len, parts)))
            self._known[boxes] = frozenset(_joined(*choice) for choice in itertools.product(*parts))
        return self._known[boxes]

    def _reduced(self, boxes: frozenset[Box]) -> frozenset[Box]:
        """Return boxes with the same union, without requirements that a box of one requirement makes superfluous.

        If a box takes every node with c=x, then `c NotIn [x]` makes no difference to the other boxes.
        """
        if not any(len(box) == 1 for box in boxes):
            return boxes
        open_boxes = [dict(box) for box in boxes]
        holders: defaultdict[str, list[dict[str, selectors.Allowed]]] = defaultdict(list)
        for box in open_boxes:
            for key in box:
                holders[key].append(box)
        work, pending = 0, [box for box in open_boxes if len(box) == 1]
        for single in pending:  # The loop appends to it.
            for key, allowed in single.items():
                work += 2 * len(holders[key]) + _values(allowed)
                self._require(work)
                for box in holders[key]:
                    if box is not single and key in box and allowed.fills(box[key]):
                        del box[key]
                        pending.extend([box] if len(box) == 1 else ())
                        if not box:
                            # The order of the boxes decides when this shows, so the work until then does not count.
                            return frozenset([()])
        self._spend(work)
        return frozenset(tuple(sorted(box.items(), key=itemgetter(0))) for box in open_boxes)

    def _part(self, boxes: frozenset[Box]) -> frozenset[Box]:
        """Return the same for connected boxes; a node is outside where it fails what they have in common."""
        common = frozenset.intersection(*map(frozenset, boxes))
        if not common:
            return self._decided(boxes)
        outside = {((key, piece),) for key, allowed in common for piece in self._outside(allowed)}
        rests = frozenset(tuple(pair for pair in box if pair not in common) for box in boxes)
        found = outside | self.of(rests)
        self._spend(len(found), boxes=len(found))
        return frozenset(found)

    def _outside(self, allowed: selectors.Allowed) -> Iterator[selectors.Allowed]:
        cells = self._cells([allowed])
        return cells.pieces(set(cells.all).difference(cells.inside(allowed)))

    def _decided(self, boxes: frozenset[Box]) -> frozenset[Box]:
        """Return the same for connected boxes, by deciding the key that most of them use."""
        uses = Counter(key for box in boxes for key, _ in box)
        if len(uses) > _MOST_KEYS:
            raise TooManyError
        key = min(uses, key=lambda key: (-uses[key], key))
        rests = {box: tuple(pair for pair in box if pair[0] != key) for box in boxes}
        cells = self._cells([allowed for box in boxes for name, allowed in box if name == key])
        where: defaultdict[Box, set[selectors.Allowed]] = defaultdict(set)
        for rest, group in self._alike(key, rests, cells).items():
            for box in self.of(rest):
                where[box].update(group)
        outside: set[Box] = set()
        for box, group in where.items():
            self._spend(len(boxes) * len(box) + len(cells.all))
            if all(_apart(box, rest) for rest in rests.values()):
                outside.add(box)
            else:
                outside.update(_joined(box, ((key, piece),)) for piece in cells.pieces(group))
        self._spend(len(outside) * _size(outside), boxes=len(outside))
        return _largest(outside)

    def _cells(self, sets: Sequence[selectors.Allowed]) -> "_Cells":
        self._spend(sum(map(_values, sets)))
        return _Cells(sets)

    def _alike(self, key: str, rests: dict[Box, Box], cells: "_Cells") -> dict[frozenset[Box], set[selectors.Allowed]]:
        """Return the cells by the problem that they leave."""
        inside: dict[selectors.Allowed, set[Box]] = {cell: set() for cell in cells.all}
        for box, rest in rests.items():
            allowed = dict(box).get(key, selectors.ANYTHING)
            self._spend(len(cells.all) if allowed.values is None else len(allowed.values))
            for cell in cells.inside(allowed):
                inside[cell].add(rest)
        by_problem: defaultdict[frozenset[Box], set[selectors.Allowed]] = defaultdict(set)
        for cell, left in inside.items():
            by_problem[frozenset(left)].add(cell)
        return by_problem

    def _spend(self, work: int, boxes: int = 0) -> None:
        # Before the step is taken: which one is too many depends on the order of sets, and it may be a large one.
        self._require(self.work + work, boxes)
        self.work += work

    def _require(self, work: int, boxes: int = 0) -> None:
        if work > MOST_WORK or boxes > self._most_boxes:
            raise TooManyError


class _Cells:
    """The possible values of one key, divided into cells so that no set of the key divides a cell.

    Beside the values that sets name, the cells hold integers only: a complement with all integers has the other values
    too, and requirements cannot express one with other values alone.
    """

    def __init__(self, sets: Sequence[selectors.Allowed]) -> None:
        self._named = frozenset[str]().union(*(one.barred | (one.values or frozenset()) for one in sets))
        ends = {0}.union(*((one.integers[0], one.integers[1] + 1) for one in sets if one.integers))
        starts = sorted(end for end in ends if end <= selectors.INT64_MAX)
        stops = (*(start - 1 for start in starts[1:]), selectors.INT64_MAX)
        spans = (selectors.span(bounds, self._named) for bounds in zip(starts, stops, strict=True))
        self._spans = tuple(span for span in spans if span != selectors.NOTHING)
        self.all = (selectors.ABSENT, *(selectors.one_of((value,)) for value in self._named), *self._spans)

    def inside(self, allowed: selectors.Allowed) -> list[selectors.Allowed]:
        """Return the cells that lie in a set."""
        if allowed.values is None:
            return [cell for cell in self.all if cell.within(allowed)]
        listed = [selectors.one_of((value,)) for value in allowed.values]
        return [*listed, selectors.ABSENT] if allowed.absent else listed

    def pieces(self, cells: set[selectors.Allowed]) -> Iterator[selectors.Allowed]:
        """Yield the union of the cells as few sets that requirements can express."""
        values = frozenset[str]().union(*(cell.values for cell in cells if cell.values is not None))
        barred = self._named - values
        if cells.issuperset(self._spans):
            yield selectors.Allowed(selectors.ABSENT in cells, None, barred)
            return
        if selectors.ABSENT in cells:
            yield selectors.ABSENT
        runs: list[tuple[int, int]] = []
        for low, high in (span.integers for span in self._spans if span.integers and span in cells):
            follows = bool(runs) and runs[-1][1] + 1 == low
            runs.append((runs.pop()[0], high) if follows else (low, high))
        for run in runs:
            yield selectors.span(run, barred)
        alone = {value for value in values if not any(selectors.in_range(value, run) for run in runs)}
        if alone:
            yield selectors.one_of(alone)


def _joined(*boxes: Box) -> Box:
    """Return the intersection of boxes that share no key."""
    return tuple(sorted(itertools.chain(*boxes), key=itemgetter(0)))


def _apart(a: Box, b: Box) -> bool:
    others = dict(b)
    return any(key in others and allowed.apart(others[key]) for key, allowed in a)


def _within(a: Box, b: Box) -> bool:
    own = dict(a)
    return all(key in own and own[key].within(allowed) for key, allowed in b)


def _largest(boxes: set[Box]) -> frozenset[Box]:
    """Return the boxes that do not lie in another one."""
    return frozenset(box for box in boxes if not any(box != other and _within(box, other) for other in boxes))


def _independent(boxes: frozenset[Box]) -> Iterator[frozenset[Box]]:
    """Yield the boxes in groups that share no key."""
    listed = list(boxes)
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for index, box in enumerate(listed):
        for key, _ in box:
            holders[key].append(index)
    while holders:
        _, first = holders.popitem()
        group = dict.fromkeys(first)
        pending = list(group)
        for index in pending:  # The loop appends to it.
            more = [other for key, _ in listed[index] for other in holders.pop(key, ()) if other not in group]
            group.update(dict.fromkeys(more))
            pending.extend(more)
        yield frozenset(listed[index] for index in group)


def _size(boxes: Iterable[Box]) -> int:
    """Return the number of requirements and values."""
    return sum(1 + _values(allowed) for box in boxes for _, allowed in box)


def _values(allowed: selectors.Allowed) -> int:
    return len(allowed.barred) + len(allowed.values or ())
