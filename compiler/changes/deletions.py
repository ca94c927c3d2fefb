"""What happens in a cluster to objects that leave its output: an engine deletes them, or they stay until a person does.

People apply the object that tells an engine to prune (bootstrap/), so one that pruned before a change goes on with it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from compiler.fleet import clusters

ENGINES: Mapping[str, str] = {"argocd": "Argo CD", "flux": "Flux"}
"""The names of engines."""

OF_FOLDERS = (
    "An engine that follows a folder which is gone reports that, and deletes nothing by itself; what makes an "
    "Application of each folder, such as an ApplicationSet, deletes it, and may delete all that came of it."
)
"""What becomes of the objects of a folder that is no longer in the repository."""


class Deletion(msgspec.Struct, frozen=True):
    """The engine of a cluster, and whether it deletes what leaves the output."""

    engine: str
    """Its name for people; empty where none is known."""
    prunes: bool

    @property
    def stays(self) -> bool:
        """True where an engine is known to leave the objects; where none is, a person may delete them at once."""
        return bool(self.engine) and not self.prunes

    def of(self, subject: str) -> str:
        """Return the clause on what becomes of objects, `it` or `them`, that leave the output."""
        if self.prunes:
            return f"{self.engine} deletes {subject}"
        stay = "it stays" if subject == "it" else "they stay"
        why = f"prune is off for {self.engine}" if self.engine else "gitops.engine names no engine"
        return f"{stay} in the cluster until somebody deletes {subject}, as {why}"


def of(side: clusters.GitOps) -> Deletion:
    """Return what becomes of objects that leave the output of a cluster with these settings."""
    prunes = (side.engine == "argocd" and side.argocd.prune) or (side.engine == "flux" and side.flux.prune)
    return Deletion(ENGINES.get(side.engine, ""), prunes)


def of_output(objects: Iterable[Mapping[str, Any]], bootstrap: Iterable[bytes]) -> Deletion | None:
    """Return what becomes of objects that leave an output, by its own annotations; None where they name no engine.

    An engine of which `bootstrap` does not tell counts as one that prunes.
    """
    keys = {key for data in objects for key in data["metadata"].get("annotations") or {}}
    found = [name for prefix, name in _ANNOTATIONS.items() if any(str(key).startswith(prefix) for key in keys)]
    told = b"".join(bootstrap)
    if b"kustomize.toolkit.fluxcd.io" in told:
        found = [ENGINES["flux"]]
    return Deletion(found[0], b"prune: false" not in told) if found else None


_ANNOTATIONS = {"argocd.argoproj.io/": ENGINES["argocd"], "kustomize.toolkit.fluxcd.io/": ENGINES["flux"]}
"""The beginnings of an engine's annotations."""


def joined(*sides: Deletion | None) -> Deletion:
    """Return what becomes of objects that leave the output between two sides; they stay only if neither prunes."""
    known = [side for side in sides if side is not None]
    pruning = [side for side in known if side.prunes]
    return next(iter((*pruning, *(side for side in known if not side.engine), *known)), Deletion("", prunes=False))
