"""The risks of a change for output/: that it has more in it than the documents say, and that it is in another place."""

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


@rule("output-moved", "risk")
def moved(change: RevisionChange) -> Iterator[Acceptable]:
    """The output of a cluster stays in the folder that something applies."""
    if change.basis.moved and change.after is not None:
        yield change.acceptable(
            change.span(None),
            "The output of ",
            Place.CLUSTER,
            f" is no longer in {wording.file_name(change.basis.moved)} of the repository.",
            notes=(
                "An engine that follows this folder reports that it is gone, and applies nothing any more.",
                "What makes an Application of each folder there deletes it, and may delete all that came of it.",
            ),
            hint="Have the engine follow the new folder, with pruning off until it does; bootstrap/ has the path.",
        )
