"""The risk of a change that output/ has more in it than the documents say."""

from collections.abc import Iterator

from compiler import wording
from compiler.changes.acceptance import Acceptable, Place
from compiler.checks.risks.change import RevisionChange
from compiler.diagnostics import Span, rule

_MOST = 3
"""Files that a message names."""


@rule("output-unexplained", "risk")
def unexplained(change: RevisionChange) -> Iterator[Acceptable]:
    """An object of output/ changes with the documents that it is made of."""
    if files := change.difference.unexplained:
        folder = f"{change.basis.output}/{change.cluster}"
        yield change.acceptable(
            Span(file=f"{folder}/{files[0]}"),
            "The output of ",
            Place.CLUSTER,
            " has changes that no document explains.",
            notes=(
                f"They are in {wording.listed(files, most=_MOST)}.",
                "Another release of kae has made them, or a hand; what they do to nodes and pods is not shown.",
            ),
            hint=f"Read what differs in {folder}/, and bring another release of kae in a commit of its own.",
        )
