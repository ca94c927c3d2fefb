"""The reason why a selector matches none of some nodes, with the label that it probably means."""

from collections.abc import Sequence

from compiler import wording
from compiler.fleet import selectors
from compiler.inventory import snapshot


def reason(term: selectors.Term, nodes: Sequence[snapshot.Node]) -> str:
    """Return a sentence on the first requirement that none of the nodes meets, which a term does not match."""
    for requirement in term:
        if not any(selectors.requirement_matches(requirement, node.label(requirement.key)) for node in nodes):
            return _reason(requirement, nodes)
    return f"No node meets all of: {', '.join(map(selectors.text, term))}."


def _reason(requirement: selectors.Requirement, nodes: Sequence[snapshot.Node]) -> str:
    key, wanted = requirement.key, requirement.values
    if requirement.operator not in ("In", "Exists"):
        return f"No node meets: {selectors.text(requirement)}."
    values = sorted({value for node in nodes if (value := node.label(key)) is not None})
    if not values:
        keys = sorted({known for node in nodes for known in (*node.labels, *node.profile.labels)})
        return f"No node has a label {key}{wording.or_meant(key, keys)}"
    misspelt = next((value for value in wanted if wording.nearest(value, values)), wanted[0])
    return f"No node has the label {_text(key, wanted)}{wording.or_meant(misspelt, values)}"


def _text(key: str, values: Sequence[str]) -> str:
    return f"{key}={values[0]}" if len(values) == 1 else f"{key} with one of {wording.listed(values)}"
