"""Access for others than the administrator: service accounts, kubeconfigs, and the rights that docs/status.md names."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.control import control_plane as control_planes

_PAGE = Path(__file__).resolve().parents[3] / "docs/status.md"
_HOME = "default"
"""The namespace of the service accounts."""


def kubeconfig(plane: control_planes.ControlPlane, folder: Path, **user: str) -> Path:
    """Return a kubeconfig for the cluster with this user."""
    server = {
        "server": f"https://{plane.instance.address}",
        "certificate-authority": str(plane.instance.state / "pki/ca.crt"),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


def token_of(plane: control_planes.ControlPlane, account: str) -> str:
    """Return a token of a service account of the namespace `default`."""
    path = f"/api/v1/namespaces/{_HOME}/serviceaccounts/{account}/token"
    answer = plane.api.request("POST", path, {"spec": {}})
    assert answer.status == 201, answer
    return str(answer.body["status"]["token"])


def documented() -> list[dict[str, Any]]:
    """Return the objects that give the rights of `kae status`, as docs/status.md has them."""
    (text,) = re.findall(r"^```yaml\n(apiVersion: rbac.*?)^```$", _PAGE.read_text(), re.M | re.S)
    return list(yaml.safe_load_all(text))


def rules_of_bundle() -> list[dict[str, Any]]:
    """Return the rules that `kae support-bundle` needs too, as docs/status.md has them."""
    (text,) = re.findall(r"^```yaml\n(- apiGroups.*?)^```$", _PAGE.read_text(), re.M | re.S)
    return list(yaml.safe_load(text))


@contextlib.contextmanager
def granted(
    plane: control_planes.ControlPlane, folder: Path, account: str, objects: Sequence[dict[str, Any]]
) -> Iterator[Path]:
    """A kubeconfig, in the folder, of a new service account that has the rights of these objects and no others."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": _HOME}
    bound = [{**item, "subjects": [subject]} if "subjects" in item else item for item in objects]
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": _HOME}}
    documents = yaml.safe_dump_all([made, *bound])
    plane.kubectl("apply", "-f", "-", text=documents)
    try:
        yield kubeconfig(plane, folder, token=token_of(plane, account))
    finally:
        plane.kubectl("delete", "-f", "-", "--ignore-not-found", text=documents)
