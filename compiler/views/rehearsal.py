"""The answer of `kae rehearse`: for people as text, for programs as data."""

from collections.abc import Iterator, Sequence
from typing import Any

from compiler import wording
from compiler.rehearsal.outcome import ALL, Outcome, Row

NOTHING = "The change touches no object and no node of any cluster, so there is nothing to rehearse."
_HEADER = ("WORKLOAD", "PODS", "KAE DIFF", "REHEARSED", "")
_MOST = 3
"""The most nodes that a row names."""


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the answer for people."""
    for outcome in outcomes:
        verdict = "as `kae diff` says" if outcome.is_equal else "NOT as `kae diff` says"
        yield f"cluster {outcome.cluster}: {wording.counted(outcome.nodes, 'hollow node')}, {verdict}"
        rows = [_row(row) for row in outcome.rows]
        yield from (f"  {line}" for line in wording.table(_HEADER, rows)) if rows else ("  no pod changes",)
        yield from (f"  refused: {wording.escaped(text)}" for text in outcome.refused)
        if outcome.halted:
            yield f"  halted: {outcome.halted} does not get done"
        if outcome.left_out:
            yield f"  not applied, as the API server does not know the kind: {wording.listed(outcome.left_out)}"
    if not outcomes:
        yield NOTHING


def _row(row: Row) -> tuple[str, ...]:
    both = (row.foretold, row.happened)
    said = "equal"
    if not row.is_equal:
        lacking, beside = sorted({*row.foretold} - {*row.happened}), sorted({*row.happened} - {*row.foretold})
        parts = (("only foretold", lacking), ("only rehearsed", beside))
        said = "; ".join(f"{words}: {_nodes(own)}" for words, own in parts if own)
    return (str(row.ref), row.fate, *(_count(nodes) for nodes in both), said)


def _count(nodes: Sequence[str]) -> str:
    return "all" if ALL in nodes else str(len(nodes))


def _nodes(nodes: Sequence[str]) -> str:
    return "its pods" if ALL in nodes else wording.listed(nodes, most=_MOST)


def data(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the answer for programs."""
    return {"equal": all(outcome.is_equal for outcome in outcomes), "clusters": [*map(_cluster, outcomes)]}


def _cluster(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.cluster,
        "equal": outcome.is_equal,
        "nodes": outcome.nodes,
        "pods": [
            {
                "kind": row.ref.kind,
                "namespace": row.ref.namespace,
                "name": row.ref.name,
                "fate": row.fate,
                "equal": row.is_equal,
                "foretold": _named(row.foretold),
                "rehearsed": _named(row.happened),
            }
            for row in outcome.rows
        ],
        "refused": [*outcome.refused],
        "halted": outcome.halted or None,
        "leftOut": [*outcome.left_out],
    }


def _named(nodes: Sequence[str]) -> Any:
    """Return the nodes of a DaemonSet's pods; of a Deployment's, `all` of which have one fate."""
    return "all" if ALL in nodes else [*nodes]
