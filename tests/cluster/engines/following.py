"""A repository that an engine follows, for as long as a test or a module needs it, and the example fleet in one."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests import in_process, project
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, gitops
from tests.cluster.local import waiting

NOWHERE = "https://git.example.com/fleet.git"
"""Flux takes no path for the URL of a repository; this one is never fetched."""

_WITHOUT_NFD = ("west",)
"""Clusters of the example whose output does not bring NFD."""

_ACCEPTED = ("removes-drivers", "removes-device-plugins", "drops-protection")

Engine = argocd.ArgoCd | flux.Flux
Application = argocd.Application | flux.Application


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A cluster whose repository an engine follows."""

    cluster: str
    repository: gitops.Repository
    application: Application
    objects: kinds.Objects

    @property
    def manifests(self) -> Sequence[manifests.Manifest]:
        written = manifests.of(self.repository.folder / "output" / self.cluster)
        return [item for item in written if not item.is_bootstrap]

    def commit(self, documents: Mapping[str, str | None]) -> str:
        """Commit other documents, or none where there was one, with what they compile to, and tell the engine."""
        commit = committed(self.repository, self.cluster, documents)
        self.application.notice()
        return commit

    def is_synced(self) -> bool:
        return self.application.is_synced(self.repository.head())

    def wait_until(self, what: str, probe: Callable[[], object]) -> None:
        waiting.until(what, probe, programs=self.programs(), explain=self.explain)

    def programs(self) -> Sequence[waiting.Watched]:
        """Return what has to work meanwhile."""
        return ()

    def explain(self) -> str:
        return self.application.explain()


F = TypeVar("F", bound=Followed)


@contextlib.contextmanager
def follow(
    kind: type[F], engine: Engine, repository: gitops.Repository, objects: kinds.Objects, /, **fields: Any
) -> Iterator[F]:
    """A cluster, `test` unless `cluster` names another one, that is synced; at the end all that was applied is gone."""
    cluster = fields.setdefault("cluster", "test")
    first = manifests.of(repository.folder / "output" / cluster)
    platform = manifests.definitions_of_nfd() if cluster in _WITHOUT_NFD else []
    objects.define((item.data, item.text) for item in platform)
    application = engine.follow([item for item in first if item.is_bootstrap], repository)
    made = kind(repository=repository, application=application, objects=objects, **fields)
    try:
        made.wait_until("the first sync", made.is_synced)
        yield made
    finally:
        application.end()
        left = {str(item): item.data for item in (*platform, *first, *made.manifests)}
        for item in reversed(left.values()):  # The definitions of kinds last.
            objects.delete(item)
        made.wait_until("its end", lambda: not any(map(objects.get, left.values())))


def settings(engine: str, repository: gitops.Repository) -> dict[str, Any]:
    return {"engine": engine, "repository": {"url": repository.url if engine == "argocd" else NOWHERE}}


def example(folder: Path, cluster: str, engine: str) -> gitops.Repository:
    repository = gitops.Repository(folder)
    for name in ("policies", "inventory"):
        shutil.copytree(manifests.ROOT / name, folder / name)
    path = f"policies/clusters/{cluster}.yaml"
    data = yaml.safe_load((folder / path).read_text())
    data["spec"]["gitops"] |= settings(engine, repository)
    committed(repository, cluster, {path: yaml.safe_dump(data)})
    return repository


def committed(repository: gitops.Repository, cluster: str, documents: Mapping[str, str | None]) -> str:
    for path, text in documents.items():
        (repository.folder / path).unlink(missing_ok=True)
        if text is not None:
            project.write(repository.folder, {path: text})
    accepted = (f"--accept={code}:{cluster}" for code in _ACCEPTED)
    answer = in_process.kae(repository.folder, "compile", "--no-cache", "--cluster", cluster, *accepted)
    assert answer.code == 0, answer.err
    return repository.commit("Change the policies")
