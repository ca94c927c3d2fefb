"""Flux's kustomize-controller itself; what Flux's source-controller does for it is done here."""

import contextlib
import functools
import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import gitops
from tests.cluster.local import processes, programs, waiting
from tests.watcher import servers

NAMESPACE = "flux-system"

_METRICS, _HEALTH = 9080, 9440
_REQUEST = "reconcile.fluxcd.io/requestedAt"
_TIME = "2020-01-01T00:00:00Z"


class Flux:
    """A running kustomize-controller, and a server from which it fetches commits."""

    def __init__(self, objects: kinds.Objects, folder: Path, url: str) -> None:
        self._objects = objects
        self._folder = folder
        self._url = url

    def follow(self, bootstrap: Sequence[manifests.Manifest], repository: gitops.Source) -> "Application":
        for item in bootstrap:
            self._objects.apply(item.data, item.text, "test")
        (source,) = (item for item in bootstrap if item.kind == "GitRepository")
        (kustomization,) = (item for item in bootstrap if item.kind == "Kustomization")
        publish = functools.partial(self._publish, source, repository)
        publish()
        return Application(self._objects, kustomization, publish)

    def _publish(self, source: manifests.Manifest, repository: gitops.Source) -> None:
        """Serve the repository's last commit, and tell of it as source-controller would."""
        commit = repository.head()
        packed = repository.archive(commit)
        name = f"{commit}.tar.gz"
        (self._folder / name).write_bytes(packed)
        revision = f"main@sha1:{commit}"
        generation = self._objects.get(source.data)["metadata"]["generation"]
        ready = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": f"stored {revision}"}
        artifact = {
            "digest": f"sha256:{hashlib.sha256(packed).hexdigest()}",
            "lastUpdateTime": _TIME,
            "path": name,
            "revision": revision,
            "size": len(packed),
            "url": f"{self._url}/{name}",
        }
        status = {
            "artifact": artifact,
            "conditions": [{**ready, "lastTransitionTime": _TIME, "observedGeneration": generation}],
            "observedGeneration": generation,
        }
        self._objects.merge(source.data, {"status": status}, "/status")


class Application:
    def __init__(
        self, objects: kinds.Objects, manifest: manifests.Manifest, publish: "functools.partial[None]"
    ) -> None:
        self._objects = objects
        self._manifest = manifest
        self._publish = publish

    @property
    def _status(self) -> Any:
        return (self._objects.get(self._manifest.data) or {}).get("status", {})

    def notice(self) -> None:
        self._publish()

    def is_synced(self, commit: str) -> bool:
        return self._status.get("lastAppliedRevision") == f"main@sha1:{commit}" and self.is_healthy()

    def is_current(self, commit: str) -> bool:
        """Return the same: every commit is applied."""
        return self.is_synced(commit)

    def is_healthy(self) -> bool:
        """Return whether Flux calls it Ready; it waits for no workload."""
        live = self._objects.get(self._manifest.data)
        return kinds.condition(live) == "True" and not kinds.condition(live, "Stalled")

    def resync(self) -> None:
        request = str(uuid.uuid4())
        self._objects.merge(self._manifest.data, {"metadata": {"annotations": {_REQUEST: request}}})

        def is_done() -> bool:
            return bool(self._status.get("lastHandledReconcileAt") == request)

        waiting.until("a resync", is_done, explain=self.explain)

    def explain(self) -> str:
        return json.dumps({**self._status, "inventory": None, "history": None}, indent=1)

    def end(self) -> None:
        """Delete it, and with it all that may be pruned."""
        self._objects.delete(self._manifest.data)
        waiting.until("its end", lambda: not self._status, explain=self.explain)


@contextlib.contextmanager
def running(plane: control_planes.ControlPlane, objects: kinds.Objects) -> Iterator[Flux]:
    instance = plane.instance
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    objects.apply(namespace, yaml.safe_dump(namespace), "test")
    folder = instance.state / "flux"
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    command = (
        *("env", f"RUNTIME_NAMESPACE={NAMESPACE}", f"TMPDIR={scratch}", programs.path("kustomize-controller")),
        *(f"--metrics-addr={instance.address}:{_METRICS}", f"--health-addr={instance.address}:{_HEALTH}"),
        "--log-encoding=console",
    )
    controller = processes.Program(instance, "kustomize-controller", command)
    with controller, servers.files(folder, instance.address) as url:
        yield Flux(objects, folder, url)
