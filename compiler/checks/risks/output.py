"""The risks of a change for output/: that it has more in it than the documents say, and that it is in another place."""

from collections.abc import Iterator

from compiler import wording
from compiler.changes import deletions
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
    former = change.basis.moved
    if former is None or change.after is None:
        return
    name = wording.file_name(former.folder)
    gitops = change.after.planned.cluster.spec.gitops
    engine = deletions.ENGINES.get(gitops.engine)
    stays = (
        f"Nothing changes {name} any more; what applies it goes on with what is there, beside the new folder.",
        "As long as both are applied, each undoes what the other one does.",
    )
    gone = (deletions.OF_FOLDERS,) if engine else ("Who applies it by hand finds nothing there.",)
    if engine is None:
        way = f"Apply {change.basis.output}/{change.cluster} from now on"
    else:
        way = f"Have {engine} follow the new folder, with pruning off until it does"
        way += "; bootstrap/ has the path" if change.after.manifests.bootstrap else ""
    yield change.acceptable(
        change.span(None),
        "The output of ",
        Place.CLUSTER,
        f" stays in {name} of the repository, and another folder has it from now on."
        if former.is_there
        else f" is no longer in {name} of the repository.",
        notes=stays if former.is_there else gone,
        hint=f"{way}, then delete {name}." if former.is_there else f"{way}.",
    )
