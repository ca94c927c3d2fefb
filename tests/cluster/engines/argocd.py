"""Argo CD itself, without its web server: the repository server, the application controller, and a cache."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import gitops
from tests.cluster.local import instances, processes, programs, waiting

NAMESPACE = "argocd"

_CONFIG_MAPS = ("argocd-cm", "argocd-rbac-cm", "argocd-gpg-keys-cm", "argocd-tls-certs-cm", "argocd-ssh-known-hosts-cm")
_ASK_PASS = Path("/tmp/reposerver-ask-pass.sock")  # noqa: S108 - It is fixed (util/askpass/common.go).
"""The socket of the repository server, which leaves it behind when it is killed."""

_REFRESH = "argocd.argoproj.io/refresh"
_REDIS, _REPO_SERVER, _REPO_METRICS, _METRICS = 6379, 8081, 8084, 28082


class ArgoCd:
    def __init__(self, objects: kinds.Objects) -> None:
        self._objects = objects

    def follow(self, bootstrap: Sequence[manifests.Manifest], _: gitops.Source) -> "Application":
        """Make it follow what the compiled bootstrap says, the repository too."""
        for item in bootstrap:
            self._objects.apply(item.data, item.text, "test")
        return Application(self._objects, next(item for item in bootstrap if item.kind == "Application"))


class Application:
    def __init__(self, objects: kinds.Objects, manifest: manifests.Manifest) -> None:
        self._objects = objects
        self._manifest = manifest

    @property
    def _status(self) -> Any:
        return (self._objects.get(self._manifest.data) or {}).get("status", {})

    def notice(self) -> None:
        """Tell Argo CD that there is a new commit, as a webhook would."""
        self._refresh("normal")

    def is_synced(self, commit: str) -> bool:
        """Return whether nothing is OutOfSync, and the last sync was of this commit and has ended well."""
        status = self._status
        return _is_current(status, commit) and bool(status["operationState"]["syncResult"]["revision"] == commit)

    def is_current(self, commit: str) -> bool:
        """Return whether nothing is OutOfSync with this commit, and the last sync has ended well."""
        return _is_current(self._status, commit)

    def is_healthy(self) -> bool:
        return bool(self._status.get("health", {}).get("status") == "Healthy")

    def resync(self) -> None:
        self._refresh("hard")

        def is_done() -> bool:
            annotations = self._objects.get(self._manifest.data)["metadata"].get("annotations", {})
            return _REFRESH not in annotations

        waiting.until("a resync", is_done, explain=self.explain)

    def explain(self) -> str:
        status = self._status
        operation = status.get("operationState", {})
        said = [f"{key}: {status.get(key)}" for key in ("conditions", "health", "sync")]
        said.append(f"operation: {[operation.get(key) for key in ('phase', 'message', 'syncResult')]}")
        odd = [item for item in status.get("resources", ()) if item.get("status") != "Synced"]
        return "\n".join((*said, *map(json.dumps, odd)))

    def end(self) -> None:
        """Delete it; what it has applied stays."""
        self._objects.delete(self._manifest.data)

    def _refresh(self, kind: str) -> None:
        self._objects.merge(self._manifest.data, {"metadata": {"annotations": {_REFRESH: kind}}})


def _is_current(status: Any, commit: str) -> bool:
    compared = status.get("sync", {})
    return (
        (compared.get("status"), compared.get("revision")) == ("Synced", commit)
        and status.get("operationState", {}).get("phase") == "Succeeded"
        and all(item.get("status") == "Synced" for item in status["resources"])
    )


@contextlib.contextmanager
def running(plane: control_planes.ControlPlane, objects: kinds.Objects) -> Iterator[ArgoCd]:
    instance = plane.instance
    for item in _settings():
        objects.apply(item, yaml.safe_dump(item), "test")
    wrapper = instance.state / "argocd" / "git-verify-wrapper.sh"
    wrapper.parent.mkdir(exist_ok=True)
    # The repository server asks this program of Argo CD's image whether a commit is signed, even where signatures are
    # switched off. No answer means no.
    wrapper.write_text("#!/bin/sh\nexit 0\n")
    wrapper.chmod(0o755)
    with contextlib.ExitStack() as stack:
        stack.callback(_ASK_PASS.unlink, missing_ok=True)
        for name, arguments in _commands(instance).items():
            command = ("env", *_environment(instance, str(wrapper.parent)), programs.path("argocd"), name, *arguments)
            stack.enter_context(processes.Program(instance, f"argocd-{name}", command))
        yield ArgoCd(objects)


def _environment(instance: instances.Instance, folder: str) -> Iterator[str]:
    scratch = instance.state / "argocd" / "tmp"
    scratch.mkdir(exist_ok=True)
    yield f"PATH={folder}:{processes.environment(instance)['PATH']}"
    yield f"TMPDIR={scratch}"
    yield "ARGOCD_GPG_ENABLED=false"
    # Its name for its own cluster, https://kubernetes.default.svc, is otherwise looked up inside of a pod only.
    yield "ARGOCD_FAKE_IN_CLUSTER=true"


def _commands(instance: instances.Instance) -> dict[str, Sequence[str]]:
    address = instance.address
    redis = f"--redis={address}:{_REDIS}"
    return {
        "redis": (f"{address}:{_REDIS}",),
        "repo-server": (
            redis,
            *(f"--address={address}", f"--port={_REPO_SERVER}"),
            *(f"--metrics-address={address}", f"--metrics-port={_REPO_METRICS}"),
            # Without the second one it refuses the first.
            *("--disable-tls", "--client-ca-path="),
        ),
        "application-controller": (
            redis,
            f"--namespace={NAMESPACE}",
            *(f"--repo-server={address}:{_REPO_SERVER}", "--repo-server-plaintext"),
            # On every address of the machine, which clusters share.
            f"--metrics-port={_METRICS + instance.number}",
            # Errors of the repository server are otherwise kept for three minutes.
            "--repo-error-grace-period-seconds=0",
            # An operation that missed the event for which it waits goes on at the next look, which is two minutes away.
            *("--app-resync=10", "--app-resync-jitter=0"),
        ),
    }


def _settings() -> Iterator[dict[str, Any]]:
    labels = {"app.kubernetes.io/part-of": "argocd"}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for name in _CONFIG_MAPS:
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    metadata = {"name": "argocd-secret", "namespace": NAMESPACE, "labels": labels}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"server.secretkey": "none"}}
