"""Label selectors as kubectl writes them."""

import re

import pytest

from compiler.fleet import label_selector, selectors

LABELS = {"pool": "tls", "zone": "a", "gen": "3", "empty": "", "example.com/in": "x"}


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
    assert selectors.term_matches(label_selector.parse(text), LABELS.get) is is_match


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
        label_selector.parse(text)
