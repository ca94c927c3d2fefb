"""Overlap and complement hold for every node that could exist. Matching is proved in test_selectors."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.fleet import overlap, selectors
from compiler.fleet.selectors import Requirement
from tests import effort

LABELS = (None, "", "x", "0", "3", "5", "05", "6", "12", "9223372036854775807", "9223372036854775808")
"""A small world of what a label can be, with integers, words and a number beyond 64 bits."""
WORDS = (None, "x", "y")
LIMITS = ("0", "1", "4", "5", "6", "9223372036854775806", "9223372036854775807")

settings = hypothesis.settings(max_examples=effort.examples(gate=25, long=150))

Labels = dict[str, str | None]


def worlds() -> Iterator[Labels]:
    """Every node of the small world: `a` and `b` are anything, `c` is a word."""
    for a, b, c in itertools.product(LABELS, LABELS, WORDS):
        yield {"a": a, "b": b, "c": c}


def requirements() -> st.SearchStrategy[Requirement]:
    """Requirements over the small world, and over values just outside it."""
    lists = st.lists(st.sampled_from([*LABELS[1:], "z"]), min_size=1, max_size=4).map(tuple)
    words = st.lists(st.sampled_from("xyz"), min_size=1, max_size=2).map(tuple)
    key = st.sampled_from("ab")
    return st.one_of(
        st.builds(Requirement, key, st.sampled_from(("In", "NotIn")), lists),
        st.builds(Requirement, st.just("c"), st.sampled_from(("In", "NotIn")), words),
        st.builds(Requirement, st.sampled_from("abc"), st.sampled_from(("Exists", "DoesNotExist"))),
        st.builds(Requirement, key, st.sampled_from(("Gt", "Lt")), st.sampled_from(LIMITS).map(lambda one: (one,))),
    )


TERMS = st.lists(requirements(), max_size=4).map(tuple)
UNIONS = st.lists(TERMS, max_size=6)


def matched(terms: Sequence[selectors.Term], labels: Labels) -> bool:
    return any(selectors.term_matches(term, labels.get) for term in terms)


def comparable(terms: Sequence[selectors.Term], labels: Labels) -> bool:
    """Return whether every label that the terms compare with Gt or Lt is an integer, or absent."""
    compared = {one.key for term in terms for one in term if one.operator in ("Gt", "Lt")}
    return all(selectors.comparable(labels[key]) for key in compared)


def negated(*terms: selectors.Term) -> list[list[str]]:
    rest = overlap.complement(terms)
    assert not isinstance(rest, overlap.TooComplex)
    return [[selectors.text(one) for one in term] for term in rest]


def pool(*names: str) -> Requirement:
    return Requirement("pool", "In", names)


@settings
@hypothesis.given(TERMS, TERMS)
def test_two_terms_overlap_exactly_when_some_node_matches_both(a: selectors.Term, b: selectors.Term) -> None:
    both = any(matched([a], world) and matched([b], world) for world in worlds())

    labels = selectors.witness((*a, *b))

    assert not (both and labels is None)
    if labels is not None:
        assert selectors.term_matches(a, labels.get)
        assert selectors.term_matches(b, labels.get)


@settings
@hypothesis.given(TERMS, TERMS)
def test_overlap_is_symmetric_and_its_absence_has_a_key_to_blame(a: selectors.Term, b: selectors.Term) -> None:
    labels = selectors.witness((*a, *b))
    blamed = overlap.contradiction(a, b)

    assert labels == selectors.witness((*b, *a))
    assert (labels is None) == (blamed is not None)
    if blamed is not None:
        assert selectors.witness(tuple(one for one in (*a, *b) if one.key == blamed)) is None


@settings
@hypothesis.given(UNIONS)
def test_overlaps_are_those_of_every_pair(terms: list[selectors.Term]) -> None:
    pairs = itertools.combinations(range(len(terms)), 2)
    expected = [(i, j, selectors.witness((*terms[i], *terms[j]))) for i, j in pairs]

    assert list(overlap.overlaps(terms)) == [pair for pair in expected if pair[2] is not None]


@settings
@hypothesis.given(UNIONS)
def test_every_node_is_in_the_terms_or_in_their_complement_and_never_in_both(terms: list[selectors.Term]) -> None:
    rest = overlap.complement(terms)
    assert not isinstance(rest, overlap.TooComplex)

    for world in worlds():
        inside, outside = matched(terms, world), matched(rest, world)

        assert not (inside and outside), world
        assert inside or outside or not comparable(terms, world), world


@settings
@hypothesis.given(UNIONS)
def test_a_complement_holds_only_what_kubernetes_accepts_and_a_node_can_match(terms: list[selectors.Term]) -> None:
    rest = overlap.complement(terms)
    assert not isinstance(rest, overlap.TooComplex)

    assert [selectors.misuse(one) for term in rest for one in term if selectors.misuse(one)] == []
    assert all(selectors.witness(term) is not None for term in rest)
    assert not any(selectors.witness((*term, *other)) for term in terms for other in rest)


@settings
@hypothesis.given(UNIONS, st.randoms(use_true_random=False))
def test_the_order_of_terms_does_not_change_their_complement(terms: list[selectors.Term], random: Random) -> None:
    shuffled = [*terms, *terms[:1]]
    random.shuffle(shuffled)

    assert overlap.complement(shuffled) == overlap.complement(terms)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((pool("tls", "web"),), (pool("web", "db"),), {"pool": "web"}),
        ((pool("tls"),), (Requirement("zone", "In", ("east",)),), {"pool": "tls", "zone": "east"}),
        ((), (), {}),
        ((pool("tls"),), (pool("web"),), None),
        ((pool("tls"),), (Requirement("pool", "DoesNotExist"),), None),
        ((Requirement("gen", "Gt", ("3",)),), (Requirement("gen", "Lt", ("4",)),), None),
        ((Requirement("gen", "Gt", ("3",)),), (Requirement("gen", "Lt", ("5",)),), {"gen": "4"}),
    ],
)
def test_an_overlap_shows_the_labels_of_a_node_that_both_match(
    a: selectors.Term, b: selectors.Term, expected: dict[str, str] | None
) -> None:
    assert selectors.witness((*a, *b)) == expected


def test_overlapping_pairs_of_many_policies_are_found_among_the_proved_ones() -> None:
    terms = [(pool(f"x{number}"),) for number in range(300)]
    terms[200] = (pool("x7", "x200"),)

    assert list(overlap.overlaps(terms)) == [(7, 200, {"pool": "x7"})]


def test_no_terms_leave_every_node_and_an_empty_term_leaves_none() -> None:
    assert overlap.complement([]) == ((),)
    assert overlap.complement([()]) == ()
    assert overlap.complement([(pool("a"),), ()]) == ()


def test_values_of_one_key_merge_into_one_term() -> None:
    terms = [(pool(f"x{number}"),) for number in range(300)]

    assert overlap.complement(terms) == (
        (Requirement("pool", "NotIn", tuple(sorted(f"x{number}" for number in range(300)))),),
    )


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (pool("a", "b"), [["pool NotIn [a, b]"]]),
        (Requirement("pool", "NotIn", ("a", "b")), [["pool In [a, b]"]]),
        (Requirement("pool", "Exists"), [["pool DoesNotExist"]]),
        (Requirement("pool", "DoesNotExist"), [["pool Exists"]]),
        (Requirement("gen", "Gt", ("3",)), [["gen DoesNotExist"], ["gen Lt 4"]]),
        (Requirement("gen", "Lt", ("3",)), [["gen DoesNotExist"], ["gen Gt 2"]]),
        (Requirement("gen", "Lt", ("0",)), [[]]),
        (Requirement("gen", "Gt", ("9223372036854775807",)), [[]]),
        (Requirement("gen", "Gt", ("9223372036854775806",)), [["gen DoesNotExist"], ["gen Lt 9223372036854775807"]]),
    ],
)
def test_each_operator_has_its_negation(requirement: Requirement, expected: list[list[str]]) -> None:
    assert negated((requirement,)) == expected


def test_a_conjunction_is_negated_requirement_by_requirement() -> None:
    term = (pool("tls"), Requirement("zone", "In", ("east",)))

    assert negated(term) == [["pool NotIn [tls]"], ["zone NotIn [east]"]]


def test_a_requirement_that_all_terms_share_is_said_once() -> None:
    east = Requirement("zone", "In", ("east",))
    terms = [(pool(f"x{number}"), east) for number in range(3)]

    assert negated(*terms) == [["pool NotIn [x0, x1, x2]"], ["zone NotIn [east]"]]


def test_integer_ranges_leave_the_gaps_between_them() -> None:
    low = (Requirement("gen", "Lt", ("3",)),)
    middle = (Requirement("gen", "Gt", ("4",)), Requirement("gen", "Lt", ("7",)))

    assert negated(low, middle) == [["gen DoesNotExist"], ["gen Gt 2", "gen Lt 5"], ["gen Gt 6"]]


def test_a_value_outside_the_gap_is_named_by_itself() -> None:
    above = (Requirement("gen", "Gt", ("4",)), Requirement("gen", "NotIn", ("9",)))

    assert negated(above) == [["gen DoesNotExist"], ["gen In [9]"], ["gen Lt 5"]]


def test_a_value_inside_a_gap_is_not_named_beside_it() -> None:
    zone = Requirement("zone", "In", ("x",))
    above = (Requirement("gen", "Gt", ("4",)), Requirement("gen", "NotIn", ("9",)))
    others = [(Requirement("gen", "NotIn", ("2",)), zone), (Requirement("gen", "In", ("2",)), zone)]

    assert negated(above, *others) == [
        ["gen DoesNotExist", "zone NotIn [x]"],
        ["gen In [9]", "zone NotIn [x]"],
        ["gen Lt 5", "zone NotIn [x]"],
    ]


def test_a_term_inside_another_is_left_out() -> None:
    off = Requirement("c", "NotIn", ("x",))
    terms = [
        (off, Requirement("b", "Exists")),
        (off, Requirement("a", "In", ("x",))),
        (Requirement("b", "In", ("y",)), Requirement("a", "NotIn", ("y",))),
    ]

    assert negated(*terms) == [["a In [y]", "c In [x]"], ["a NotIn [x]", "b DoesNotExist"], ["b NotIn [y]", "c In [x]"]]


def test_terms_that_match_no_node_take_nothing_away() -> None:
    never = (pool("a"), pool("b"))

    assert negated(never, (pool("c"),)) == [["pool NotIn [c]"]]


def test_terms_that_match_every_node_together_leave_none() -> None:
    assert negated((Requirement("pool", "Exists"),), (Requirement("pool", "NotIn", ("a",)),)) == []


def test_keys_of_their_own_stay_one_term_however_many() -> None:
    terms = [(Requirement(f"k{number:03}", "Exists"),) for number in range(300)]

    assert negated(*terms) == [[f"k{number:03} DoesNotExist" for number in range(300)]]


def test_a_shared_key_keeps_the_terms_as_few_as_the_policies() -> None:
    terms = [(pool(f"x{number}"), Requirement("gen", "In", (f"g{number}",))) for number in range(30)]

    terms_left = negated(*terms)

    assert len(terms_left) == 31
    assert ["gen In [g7]", "pool NotIn [x7]"] in terms_left


def test_as_many_terms_as_people_can_review_are_not_too_complex() -> None:
    def terms(count: int) -> list[selectors.Term]:
        return [tuple(Requirement(f"k{number:02}", "Exists") for number in range(count))]

    assert len(negated(*terms(64))) == 64
    assert isinstance(overlap.complement(terms(65)), overlap.TooComplex)


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param(
            [(Requirement(f"a{n}", "In", ("x",)), Requirement(f"b{n}", "In", ("y",))) for n in range(30)],
            id="keys of their own",
        ),
        pytest.param(
            [(Requirement(f"k{n}", "In", ("x",)), Requirement(f"k{n + 1}", "In", ("y",))) for n in range(150)],
            id="a chain of keys",
        ),
        pytest.param(
            [(Requirement(f"k{n}", "Exists"), Requirement(f"k{n + 1}", "Exists")) for n in range(1000)],
            id="a chain deeper than the stack",
        ),
        pytest.param(
            [(Requirement("a", "Gt", (f"{n}",)), Requirement("b", "Lt", (f"{n}",))) for n in range(300)],
            id="ranges of two keys",
        ),
        pytest.param(
            [(pool(f"p{n}"), *(Requirement(f"c{i}", "NotIn", ("bad",)) for i in range(300))) for n in range(60)],
            id="hundreds of keys in common",
        ),
        pytest.param(
            [tuple(Requirement(f"k{n * i % 9}", "NotIn", (f"v{n}", f"v{i}")) for i in (1, 2, 4)) for n in range(300)],
            id="values that cross each other",
        ),
    ],
)
def test_what_would_take_too_many_terms_is_given_up_soon(
    terms: list[selectors.Term], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap, "MOST_WORK", 100_000)
    spent = counted(monkeypatch)

    assert isinstance(overlap.complement(terms), overlap.TooComplex)
    # The step that is one too many is neither taken nor counted.
    assert [work for work in spent() if work > overlap.MOST_WORK] == []


def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """Return a function that returns the work of each negation since the call."""
    made: list[overlap.Negation] = []

    class Counted(overlap.Negation):
        def __init__(self, most_boxes: int) -> None:
            super().__init__(most_boxes)
            made.append(self)

    monkeypatch.setattr(overlap, "Negation", Counted)
    return lambda: [one.work for one in made]


def sharing(count: int) -> list[selectors.Term]:
    """Sixty policies with a value of `pool` each, for nodes without any of `count` ills, and a policy for each ill."""
    ills = [f"c{number:03}" for number in range(count)]
    healthy = [Requirement(ill, "NotIn", ("bad",)) for ill in ills]
    ill = [(Requirement(name, "In", ("bad",)), *healthy[:number]) for number, name in enumerate(ills)]
    return [*((pool(f"p{number:02}"), *healthy) for number in range(60)), *ill]


@pytest.mark.long
def test_keys_in_common_do_not_count_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = sharing(300)
    spent = counted(monkeypatch)

    assert list(overlap.overlaps(terms)) == []
    (rest,) = negated(*terms)
    assert rest == [
        *(f"c{number:03} NotIn [bad]" for number in range(300)),
        f"pool NotIn [{', '.join(f'p{number:02}' for number in range(60))}]",
    ]
    assert spent()[0] < 5 * sum(map(len, terms))


def test_everything_but_pairs_leaves_nothing() -> None:
    terms = [(Requirement("a", "NotIn", (f"x{n}",)), Requirement("b", "NotIn", (f"y{n}",))) for n in range(300)]

    assert negated(*terms) == []


def test_a_range_sifts_the_values_of_many_requirements_once(monkeypatch: pytest.MonkeyPatch) -> None:
    barred = (tuple(str(256 * number + own) for own in range(256)) for number in range(300))
    term = (Requirement("gen", "Gt", ("5",)), *(Requirement("gen", "NotIn", values) for values in barred))
    read: Counter[str] = Counter()
    integer = selectors.integer

    def counting(value: str) -> int | None:
        read[value] += 1
        return integer(value)

    monkeypatch.setattr(selectors, "integer", counting)

    assert selectors.witness(term) == {"gen": "76800"}
    assert max(read.values()) <= 3


def test_what_is_too_complex_names_its_keys_the_most_common_first() -> None:
    terms = [(Requirement(f"k{n:02}", "Exists"), pool("x"), Requirement("a", "NotIn", (f"{n}",))) for n in range(40)]
    own = [(Requirement(f"z{n}", "In", ("x",)), Requirement(f"y{n}", "In", ("y",))) for n in range(10)]

    rest = overlap.complement([*terms, *own])

    assert isinstance(rest, overlap.TooComplex)
    assert rest.keys[:3] == ("a", "pool", "k00")
