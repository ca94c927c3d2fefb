"""Who asks which API server: a kubeconfig's context, or a pod's service account.

The official client is an extra of the wheel, and its import takes a second and 40 MB: it is imported by name where
something is asked of a cluster, and nowhere else.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from compiler import errors

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet keeps a pod's token and its cluster's authority (Kubernetes, "Accessing the API from a Pod")."""

Load = Callable[[Any], None]
"""Reads everything anew, and sets the client's configuration; raises NoAccess."""


class NoClient(errors.WorldError):
    """The Kubernetes client is not installed."""


class NoAccess(errors.WorldError):
    """What should say where the API server is, and who asks it, does not."""


def library(name: str) -> ModuleType:
    """A module of the official client; raises NoClient where it is not installed."""
    try:
        return importlib.import_module(f"kubernetes.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kubernetes":
            raise
        raise NoClient(
            "the Kubernetes client, with which a live cluster is asked, is not installed.",
            hint="Run: pip install 'kae-compiler[live]'",
        ) from error


def of_file(path: Path, context: str | None = None) -> Load:
    """The way that a kubeconfig describes, in its current context where none is named."""

    def load(settings: Any) -> None:
        found = _kubeconfig(path)
        chosen = _context(path, found, context)
        module = library("config.kube_config")
        unusable = library("config.config_exception").ConfigException
        try:
            # As kubectl does, files that it names are looked for beside it.
            loader = module.KubeConfigLoader(found, active_context=chosen, config_base_path=str(path.absolute().parent))
            loader.load_and_set(settings)
            named = getattr(loader, "host", None)
        except unusable as error:
            raise NoAccess(f"context '{chosen}' of '{path}' cannot be used: {_sentence(error)}") from error
        except OSError as error:
            raise NoAccess(f"'{error.filename}', which '{path}' names, cannot be read: {error.strerror}.") from error
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            # The client takes every field for what it should be.
            raise NoAccess(f"context '{chosen}' of '{path}' is not what a kubeconfig holds.") from error
        if named is None:
            raise NoAccess(f"the cluster of context '{chosen}' of '{path}' names no server.")

    return load


def of_pod(folder: Path = SERVICE_ACCOUNT) -> Load:
    """The way from a pod to the API server of its own cluster."""

    def load(settings: Any) -> None:
        unusable = library("config.config_exception").ConfigException
        loader = library("config.incluster_config").InClusterConfigLoader(
            token_filename=str(folder / "token"), cert_filename=str(folder / "ca.crt")
        )
        # A proxy in the environment is for what lies outside; the API server is the cluster's own.
        settings.proxy = None
        try:
            loader.load_and_set(settings)
        except (OSError, unusable) as error:
            raise NoAccess(f"the pod's service account cannot be used: {_sentence(error)}") from error

    return load


def _kubeconfig(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise NoAccess(f"'{path}' cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NoAccess(f"'{path}' is not a kubeconfig: it is no YAML.") from error
    if not isinstance(found, dict) or not isinstance(found.get("clusters"), list):
        raise NoAccess(f"'{path}' is not a kubeconfig: it lists no clusters.")
    return found


def _context(path: Path, found: Mapping[str, Any], wanted: str | None) -> str:
    contexts = found.get("contexts")
    items: Sequence[Any] = contexts if isinstance(contexts, list) else ()
    known = [str(item["name"]) for item in items if isinstance(item, dict) and "name" in item]
    have = f"Its contexts are {', '.join(sorted(known))}." if known else "It has no contexts."
    chosen = wanted or found.get("current-context")
    if not chosen:
        raise NoAccess(f"'{path}' states no current context.", hint=f"Name one with --context. {have}")
    if chosen not in known:
        raise NoAccess(f"'{path}' has no context '{chosen}'.", hint=have)
    return str(chosen)


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{text[:1].lower()}{text[1:]}."
