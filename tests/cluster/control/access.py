"""Access for others than the administrator: service accounts, and the rights of docs/examples/rights/."""

import contextlib
import copy
import itertools
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.control import api, certificates, pods
from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import waiting

_RIGHTS = Path(__file__).resolve().parents[3] / "docs/examples/rights"
_HOME = "default"


def kubeconfig(plane: control_planes.ControlPlane, folder: Path, **user: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(certificates.kubeconfig(plane.instance, **user))
    return path


def bound_token(namespace: pods.Namespace, account: str, pod: str = "") -> str:
    """Return a token of a service account as a pod of the namespace has it, or one that is bound to none."""
    bound = ("--bound-object-kind", "Pod", "--bound-object-name", pod) if pod else ()
    return namespace.kubectl("create", "token", account, *bound).strip()


def token_of(plane: control_planes.ControlPlane, account: str) -> str:
    path = f"/api/v1/namespaces/{_HOME}/serviceaccounts/{account}/token"
    return str(plane.api.ask("POST", path, {"spec": {}})["status"]["token"])


def documented() -> list[dict[str, Any]]:
    """Return the objects that give the rights of `kae status`, as docs/examples/rights/ has them."""
    return list(yaml.safe_load_all((_RIGHTS / "status.yaml").read_text()))


def rules_of_bundle() -> list[dict[str, Any]]:
    """Return the rules that `kae support-bundle` needs too, as docs/examples/rights/ has them."""
    role, _ = yaml.safe_load_all((_RIGHTS / "support-bundle.yaml").read_text())
    return list(role["rules"])


@contextlib.contextmanager
def granted(plane: control_planes.ControlPlane, folder: Path, objects: Sequence[dict[str, Any]]) -> Iterator[Path]:
    """A kubeconfig, in the folder, of a new service account that has the rights of these objects and no others."""
    # Of names of their own: the API server remembers roles and bindings of others for a while.
    suffix = f"-{secrets.token_hex(4)}"
    account = {"kind": "ServiceAccount", "name": f"granted{suffix}", "namespace": _HOME}
    metadata = {"name": account["name"], "namespace": _HOME}
    made: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}]
    for item in copy.deepcopy(objects):
        item["metadata"]["name"] += suffix
        if "subjects" in item:
            item["roleRef"]["name"] += suffix
            item["subjects"] = [account]
        made.append(item)
    plane.apply(*made)
    try:
        caller = plane.api.with_token(token_of(plane, account["name"]))
        waiting.until("the rights", lambda: all(may(caller, **right) for right in _rights(made)))
        yield kubeconfig(plane, folder, token=caller.token)
    finally:
        plane.delete(*made)


def may(caller: api.Api, **attributes: str) -> bool:
    return bool(_reviewed(caller, "selfsubjectaccessreviews", {"resourceAttributes": attributes})["allowed"])


def rules(caller: api.Api, namespace: str) -> set[tuple[str, str, str]]:
    """Return all rights of the caller in a namespace: verb, resource.group, and the name, which is empty for all."""
    reviewed = _reviewed(caller, "selfsubjectrulesreviews", {"namespace": namespace})
    return {
        (verb, f"{resource}.{group}".rstrip("."), name)
        for rule in reviewed["resourceRules"]
        for group, resource, verb in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
        for name in rule.get("resourceNames") or ("",)
        # Every authenticated user may ask for its own name and rights (system:basic-user).
        if not resource.startswith("selfsubject")
    }


def _reviewed(caller: api.Api, sort: str, spec: Mapping[str, Any]) -> Any:
    return caller.ask("POST", f"/apis/authorization.k8s.io/v1/{sort}", {"spec": spec})["status"]


def _rights(objects: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    for role in objects:
        for rule in role.get("rules", ()):
            for group, resource, verb in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                main, _, part = resource.partition("/")
                where = {"namespace": role["metadata"].get("namespace", "")}
                yield {"group": group, "resource": main, "subresource": part, "verb": verb, **where}
