"""Load the address and credentials of an API server from a kubeconfig or from a pod's service account.

The official client is an optional dependency of the wheel, and its import takes a second and 40 MB. So it is imported
by name, at the first request; the same holds for PyYAML, which only a kubeconfig needs.
"""

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from compiler import errors

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's token and its cluster's authority (Kubernetes, "Accessing the API from a Pod")."""

Load = Callable[[Any], None]
"""Reads all files again and fills in the client's configuration; raises NoAccess."""


class NoClient(errors.WorldError):
    """The Kubernetes client is not installed."""


class NoAccess(errors.WorldError):
    """The kubeconfig or the service account is missing or unusable."""


def library(name: str) -> ModuleType:
    """Import a module of the official client; raise NoClient where it is not installed."""
    try:
        return importlib.import_module(f"kubernetes.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kubernetes":
            raise
        raise NoClient(
            "the Kubernetes client, which live clusters need, is not installed.",
            hint="Run: pip install 'kae-compiler[live]'",
        ) from error


def of_environment(service_account: Path = SERVICE_ACCOUNT) -> Load:
    """Return the loader of the kubeconfigs that KUBECONFIG names, else of the pod's service account."""
    return of_files(default_files()) if os.environ.get("KUBECONFIG") else of_pod(service_account)


def default_files() -> tuple[Path, ...]:
    """Return the kubeconfigs that kubectl reads without --kubeconfig: those of KUBECONFIG, else ~/.kube/config."""
    named = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if not named:
        return (Path.home() / ".kube/config",)
    # kubectl skips missing files of a list.
    return tuple(path for path in named if path.exists()) or (named[0],)


def of_files(paths: Sequence[Path], context: str | None = None) -> Load:
    """Return the loader of kubeconfigs that count as one; of several entries of a name, the first counts."""
    names = os.pathsep.join(map(str, paths))

    def load(settings: Any) -> None:
        kubeconfig = _merged(paths)
        name = _context(names, kubeconfig, context)
        module = library("config.kube_config")
        unusable = library("config.config_exception").ConfigException
        try:
            # As for kubectl, relative paths start at the kubeconfig's folder.
            folder = str(paths[0].absolute().parent)
            loader = module.KubeConfigLoader(kubeconfig, active_context=name, config_base_path=folder)
            loader.load_and_set(settings)
            server = getattr(loader, "host", None)
        except unusable as error:
            raise NoAccess(f"context '{name}' of '{names}' cannot be used: {_sentence(error)}") from error
        except OSError as error:
            raise NoAccess(f"'{error.filename}', which '{names}' names, cannot be read: {error.strerror}.") from error
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            # The client does not check the types of fields.
            raise NoAccess(f"context '{name}' of '{names}' has fields of the wrong type, or lacks some.") from error
        if server is None:
            raise NoAccess(f"the cluster of context '{name}' of '{names}' names no server.")

    return load


def of_pod(folder: Path = SERVICE_ACCOUNT) -> Load:
    """Return the loader of a pod's service account, which leads to the API server of the pod's own cluster."""

    def load(settings: Any) -> None:
        unusable = library("config.config_exception").ConfigException
        loader = library("config.incluster_config").InClusterConfigLoader(
            token_filename=str(folder / "token"), cert_filename=str(folder / "ca.crt")
        )
        # Proxies in the environment are for servers outside; the API server is the cluster's own.
        settings.proxy = None
        try:
            loader.load_and_set(settings)
        except (OSError, unusable) as error:
            raise NoAccess(f"the pod's service account cannot be used: {_sentence(error)}") from error

    return load


def _kubeconfig(path: Path) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - pods have no kubeconfig and do without it

    try:
        document = yaml.safe_load(path.read_bytes())
    except OSError as error:
        if os.pathsep in str(path) and not path.exists():
            # KUBECONFIG takes a list of files, separated by colons.
            raise NoAccess(f"'{path}' does not exist: --kubeconfig names one file, not a list.") from error
        raise NoAccess(f"'{path}' cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NoAccess(f"'{path}' is not a kubeconfig: it is not YAML.") from error
    if not isinstance(document, dict) or not isinstance(document.get("clusters"), list):
        raise NoAccess(f"'{path}' is not a kubeconfig: it lists no clusters.")
    return document


_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def _merged(paths: Sequence[Path]) -> Mapping[str, Any]:
    """Return kubeconfigs as one; as for kubectl, the first entry of a name and the first current context count."""
    read = [(path, _kubeconfig(path)) for path in paths]
    if len(read) == 1:
        return read[0][1]
    current = next((found for _, each in read if (found := each.get("current-context"))), None)
    merged: dict[str, Any] = {"current-context": current}
    for field, part in (("clusters", "cluster"), ("contexts", "context"), ("users", "user")):
        named: dict[str, Any] = {}
        for path, kubeconfig in read:
            for item in kubeconfig.get(field) or ():
                if isinstance(item, dict) and isinstance(item.get(part), dict):
                    named.setdefault(str(item.get("name")), {**item, part: _anchored(item[part], path)})
        merged[field] = list(named.values())
    return merged


def _anchored(entry: Mapping[str, Any], kubeconfig: Path) -> dict[str, Any]:
    """Return an entry with its paths, which start at the folder of its own kubeconfig."""
    folder = kubeconfig.absolute().parent
    return {key: str(folder / value) if key in _PATHS and value else value for key, value in entry.items()}


def _context(path: str, kubeconfig: Mapping[str, Any], wanted: str | None) -> str:
    contexts = kubeconfig.get("contexts")
    items: Sequence[Any] = contexts if isinstance(contexts, list) else ()
    known = [str(item["name"]) for item in items if isinstance(item, dict) and "name" in item]
    known_text = f"Its contexts are {', '.join(sorted(known))}." if known else "It has no contexts."
    name = wanted or kubeconfig.get("current-context")
    if not name:
        raise NoAccess(f"'{path}' states no current context.", hint=f"Name one with --context. {known_text}")
    if name not in known:
        raise NoAccess(f"'{path}' has no context '{name}'.", hint=known_text)
    return str(name)


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{text[:1].lower()}{text[1:]}."
