"""Selectors match the labels that Kubernetes would match, and a witness is a real set of labels."""

import itertools
import re
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.fleet import selectors
from compiler.fleet.selectors import Requirement
from tests import builders, effort

LABELS = (
    *(None, "", "a", "b", "a5", "1.5", "0", "00", "1", "5", "05", "6", "007"),
    *("9223372036854775806", "9223372036854775807", "9223372036854775808", "99999999999999999999"),
)
"""A small world of what one label of a node can be."""
NO_LABELS = ("-5", "+5", "-0", "-9223372036854775808", "-9223372036854775809", "1_0", " 5", "5\n", "٣", "0x5")
"""Values that no node can have, but strconv.ParseInt still judges."""
LIMITS = ("0", "1", "4", "5", "05", "6", "9223372036854775806", "9223372036854775807")

settings = hypothesis.settings(max_examples=effort.examples(gate=33, long=200))


def parse_int(value: str) -> int | None:
    """strconv.ParseInt(value, 10, 64), digit by digit."""
    sign = -1 if value.startswith("-") else 1
    digits = value[1:] if value[:1] in ("-", "+") else value
    number = 0
    for digit in digits:
        if digit not in "0123456789":
            return None
        number = number * 10 + "0123456789".index(digit)
    return sign * number if digits and -(1 << 63) <= sign * number < 1 << 63 else None


def brute_matches(requirement: Requirement, value: str | None) -> bool:
    """A requirement's meaning, spelled out once more."""
    listed = any(value == one for one in requirement.values)
    if requirement.operator in ("In", "NotIn"):
        return listed == (requirement.operator == "In")
    if requirement.operator in ("Exists", "DoesNotExist"):
        return (value is None) == (requirement.operator == "DoesNotExist")
    left = parse_int(value or "")
    right = parse_int(requirement.values[0])
    if left is None or right is None:
        return False
    return left - right > 0 if requirement.operator == "Gt" else right - left > 0


def requirements(keys: str, values: tuple[str, ...], limits: tuple[str, ...]) -> st.SearchStrategy[Requirement]:
    """Requirements that are well formed, though their values need not be."""
    key = st.sampled_from(keys)
    lists = st.lists(st.sampled_from(values), min_size=1, max_size=4).map(tuple)
    return st.one_of(
        st.builds(Requirement, key, st.sampled_from(("In", "NotIn")), lists),
        st.builds(Requirement, key, st.sampled_from(("Exists", "DoesNotExist"))),
        st.builds(Requirement, key, st.sampled_from(("Gt", "Lt")), st.sampled_from(limits).map(lambda one: (one,))),
    )


VALUES = tuple(value for value in LABELS if value is not None)
TERMS = st.lists(requirements("ab", VALUES, LIMITS), max_size=5).map(tuple)


@settings
@hypothesis.given(requirements("a", VALUES + NO_LABELS, LIMITS + NO_LABELS + ("", "x", "9223372036854775808")))
def test_a_requirement_matches_as_in_kubernetes(requirement: Requirement) -> None:
    for value in LABELS + NO_LABELS:
        assert selectors.requirement_matches(requirement, value) == brute_matches(requirement, value), value


@settings
@hypothesis.given(TERMS)
def test_a_term_matches_where_none_of_its_requirements_fails(term: selectors.Term) -> None:
    for a, b in itertools.product(LABELS, repeat=2):
        label = {"a": a, "b": b}.get
        expected = tuple(one for one in term if not brute_matches(one, label(one.key)))

        assert selectors.failing(term, label) == expected
        assert selectors.term_matches(term, label) == (not expected)


@settings
@hypothesis.given(TERMS)
def test_a_term_has_a_witness_exactly_when_some_labels_satisfy_it(term: selectors.Term) -> None:
    worlds = ({"a": a, "b": b} for a, b in itertools.product(LABELS, repeat=2))
    satisfiable = any(all(brute_matches(one, world[one.key]) for one in term) for world in worlds)

    witness = selectors.witness(term)

    assert not (satisfiable and witness is None)
    if witness is not None:
        assert all(brute_matches(one, witness.get(one.key)) for one in term)
        assert all(re.fullmatch(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?", one) for one in witness.values())
        for key in witness:
            fewer = {name: value for name, value in witness.items() if name != key}
            assert not all(brute_matches(one, fewer.get(one.key)) for one in term)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ((), {}),
        ((Requirement("pool", "In", ("web", "tls")),), {"pool": "tls"}),
        ((Requirement("pool", "In", ("", "web")),), {"pool": "web"}),
        ((Requirement("pool", "In", ("",)),), {"pool": ""}),
        ((Requirement("pool", "In", ("a", "b")), Requirement("pool", "NotIn", ("a",))), {"pool": "b"}),
        ((Requirement("pool", "NotIn", ("a",)),), {}),
        ((Requirement("pool", "DoesNotExist"),), {}),
        ((Requirement("zone", "Exists"),), {"zone": "true"}),
        ((Requirement("zone", "Exists"), Requirement("zone", "NotIn", ("other", "x"))), {"zone": "other-2"}),
        ((Requirement("gen", "Gt", ("3",)),), {"gen": "4"}),
        ((Requirement("gen", "Gt", ("3",)), Requirement("gen", "NotIn", ("4",))), {"gen": "5"}),
        ((Requirement("gen", "Gt", ("3",)), Requirement("gen", "In", ("2", "07", "x"))), {"gen": "07"}),
        (
            (
                Requirement("gen", "Gt", ("3",)),
                Requirement("gen", "Lt", ("5",)),
                Requirement("gen", "NotIn", ("4", "04")),
            ),
            {"gen": "004"},
        ),
        ((Requirement("gen", "Gt", ("9223372036854775806",)),), {"gen": "9223372036854775807"}),
    ],
)
def test_a_witness_is_short_and_readable(term: selectors.Term, expected: dict[str, str]) -> None:
    assert selectors.witness(term) == expected


@pytest.mark.parametrize(
    "term",
    [
        (Requirement("pool", "In", ("a",)), Requirement("pool", "In", ("b",))),
        (Requirement("pool", "In", ("a",)), Requirement("pool", "NotIn", ("a",))),
        (Requirement("pool", "Exists"), Requirement("pool", "DoesNotExist")),
        (Requirement("pool", "In", ("-not-a-label-",)),),
        (Requirement("pool", "In", ("x" * 64,)),),
        (Requirement("gen", "Lt", ("0",)),),
        (Requirement("gen", "Gt", ("4",)), Requirement("gen", "Lt", ("5",))),
        (Requirement("gen", "Gt", ("9223372036854775807",)),),
        (Requirement("gen", "Gt", ("x",)),),
        (
            Requirement("gen", "Gt", ("3",)),
            Requirement("gen", "Lt", ("5",)),
            Requirement("gen", "NotIn", tuple("4".zfill(width) for width in range(1, 64))),
        ),
    ],
)
def test_a_term_that_no_node_can_satisfy_has_no_witness(term: selectors.Term) -> None:
    assert selectors.witness(term) is None


def test_the_longest_spelling_of_an_integer_is_a_witness_too() -> None:
    shorter = tuple("4".zfill(width) for width in range(1, 63))
    term = (Requirement("gen", "Gt", ("3",)), Requirement("gen", "Lt", ("5",)), Requirement("gen", "NotIn", shorter))

    assert selectors.witness(term) == {"gen": "4".zfill(63)}


def test_a_selector_becomes_a_term_in_one_order_without_repetition() -> None:
    selector = selectors.Selector(
        matchLabels={"zone": "east", "pool": "tls"},
        matchExpressions=(
            Requirement("pool", "NotIn", ("web", "db", "web")),
            Requirement("gen", "Exists"),
            Requirement("pool", "In", ("tls",)),
        ),
    )

    assert selectors.of(selector) == (
        Requirement("gen", "Exists"),
        Requirement("pool", "In", ("tls",)),
        Requirement("pool", "NotIn", ("db", "web")),
        Requirement("zone", "In", ("east",)),
    )


def test_no_selector_matches_every_node() -> None:
    term = selectors.of(None)

    assert term == ()
    assert selectors.term_matches(term, lambda key: None)


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("pool", "In", ("tls", "web")), "pool In [tls, web]"),
        (Requirement("pool", "NotIn", ("", "web")), 'pool NotIn ["", web]'),
        (Requirement("zone", "Exists"), "zone Exists"),
        (Requirement("zone", "DoesNotExist"), "zone DoesNotExist"),
        (Requirement("gen", "Gt", ("3",)), "gen Gt 3"),
        (Requirement("gen", "Lt", ("9",)), "gen Lt 9"),
    ],
)
def test_a_requirement_is_said_in_one_line(requirement: Requirement, expected: str) -> None:
    assert selectors.text(requirement) == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("k", "In"), "needs at least one value"),
        (Requirement("k", "NotIn"), "needs at least one value"),
        (Requirement("k", "Exists", ("a",)), "takes no values"),
        (Requirement("k", "DoesNotExist", ("a",)), "takes no values"),
        (Requirement("k", "Gt"), "needs exactly one integer"),
        (Requirement("k", "Lt", ("1", "2")), "needs exactly one integer"),
        (Requirement("k", "Gt", ("x",)), "needs a 64-bit integer, but 'x' is not one"),
        (
            Requirement("k", "Lt", ("9223372036854775808",)),
            "needs a 64-bit integer, but '9223372036854775808' is not one",
        ),
        (Requirement("k", "Gt", ("-1",)), "needs values that a label can have, but '-1' is not one"),
        (Requirement("k", "In", ("a", "b c")), "needs values that a label can have, but 'b c' is not one"),
        (Requirement("k", "In", ("", "a")), None),
        (Requirement("k", "NotIn", ("a",)), None),
        (Requirement("k", "Exists"), None),
        (Requirement("k", "DoesNotExist"), None),
        (Requirement("k", "Gt", ("007",)), None),
        (Requirement("k", "Lt", ("9223372036854775807",)), None),
    ],
)
def test_a_requirement_that_kubernetes_refuses_is_explained(requirement: Requirement, expected: str | None) -> None:
    assert selectors.misuse(requirement) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, True), ("5", True), ("05", True), ("", False), ("v5", False), ("9223372036854775808", False)],
)
def test_a_label_is_comparable_when_it_is_an_integer_or_absent(value: str | None, expected: bool) -> None:
    assert selectors.comparable(value) == expected


def test_an_endless_number_is_no_integer_rather_than_a_failure() -> None:
    assert selectors.integer("9" * 10_000) is None
    assert selectors.integer("0" * 10_000 + "9") == 9


APART = (builders.node("a", {"pool": "tls", "zone": "lab"}), builders.node("b", {"pool": "web", "gen": "4"}))


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ({"matchLabels": {"pool": "tsl"}}, "No node has the label pool=tsl; did you mean 'tls'?"),
        ({"matchLabels": {"pool": "storage"}}, "No node has the label pool=storage."),
        ({"matchLabels": {"pol": "tls"}}, "No node has a label pol; did you mean 'pool'?"),
        ({"matchLabels": {"rack": "7"}}, "No node has a label rack."),
        (
            {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["storage", "wbe"]}]},
            "No node has the label pool with one of storage and wbe; did you mean 'web'?",
        ),
        (
            {"matchExpressions": [{"key": "zoen", "operator": "Exists"}]},
            "No node has a label zoen; did you mean 'zone'?",
        ),
        ({"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["7"]}]}, "No node meets: gen Gt 7."),
        ({"matchLabels": {"pool": "web", "zone": "lab"}}, "No node meets all of: pool In [web], zone In [lab]."),
    ],
)
def test_the_reason_why_no_node_matches_names_the_label_and_the_nearest_one(
    selector: dict[str, Any], reason: str
) -> None:
    assert selectors.why_unmatched(builders.policy(nodeSelector=selector).term, APART) == reason


KNOWN = {"pool": "tls", "zone": "a", "gen": "3", "empty": "", "example.com/in": "x"}


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("", True),
        ("pool=tls", True),
        ("pool==web", False),
        (" pool = tls , zone!=b", True),
        ("rack!=b", True),
        ("pool!=tls", False),
        ("pool in (web, tls)", True),
        ("pool in(web)", False),
        ("pool notin (web,tls),zone", False),
        ("rack notin (a)", True),
        ("zone", True),
        ("rack", False),
        ("!rack", True),
        ("! zone", False),
        ("empty=", True),
        ("empty in ()", True),
        ("gen>2,gen<4", True),
        ("gen > 3", False),
        ("example.com/in=x,pool", True),
    ],
)
def test_a_selector_matches_the_nodes_that_kubectl_would_list(text: str, is_match: bool) -> None:
    assert selectors.term_matches(selectors.parse(text), KNOWN.get) is is_match


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pool=tls,", "'' is no requirement"),
        (",pool", "',pool' is no requirement"),
        ("pool in web", "'pool in web' is no requirement"),
        ("pool=tls zone=a", "'pool=tls zone=a' is no requirement"),
        ("a,pool in (web", "'pool in (web' is no requirement"),
        ("gen>x", "'gen' needs a 64-bit integer, but 'x' is not one"),
        ("pool=-x", "'pool' needs values that a label can have, but '-x' is not one"),
    ],
)
def test_a_selector_that_kubectl_refuses_is_refused_with_the_fault(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        selectors.parse(text)
