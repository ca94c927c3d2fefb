"""The cluster's own certificate authority, what it issues, and the kubeconfigs that carry it.

The extensions are those that RFC 5280 demands and that Python's `ssl` insists on since 3.13.
"""

import json
import subprocess
from base64 import b64encode
from pathlib import Path

from tests.cluster.local import instances

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_DAYS = ("-days", "2")


def write(instance: instances.Instance) -> Path:
    """Write the authority, all certificates and all kubeconfigs, and return the folder of the certificates."""
    folder = instance.state / "pki"
    folder.mkdir(mode=0o700)
    _openssl(
        *("req", "-x509", *_KEY, *_DAYS, "-subj", "/CN=kae-cluster"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt")),
    )
    # This command writes SEC 1 ("EC PRIVATE KEY"), the only form out of which the API server takes the public half.
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(folder / "service-account.key"))
    _issue(folder, "server", "/CN=kube-apiserver", names=f"IP:{instance.address},DNS:kubernetes.default.svc")
    _issue(folder, "kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    for name, subject in {
        "admin": "/O=system:masters/CN=admin",
        "kube-controller-manager": "/CN=system:kube-controller-manager",
        "kube-scheduler": "/CN=system:kube-scheduler",
        "kubelet": f"/O=system:nodes/CN=system:node:{instances.NODE}",
    }.items():
        _issue(folder, name, subject)
        _write_kubeconfig(instance, folder, name)
    return folder


def _issue(folder: Path, name: str, subject: str, names: str = "") -> None:
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    lines = ["subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid", "extendedKeyUsage=serverAuth,clientAuth"]
    extensions.write_text("\n".join([*lines, *([f"subjectAltName={names}"] if names else ())]))
    _openssl("req", "-new", *_KEY, "-subj", subject, "-keyout", str(folder / f"{name}.key"), "-out", str(request))
    _openssl(
        *("x509", "-req", *_DAYS, "-in", str(request), "-extfile", str(extensions)),
        *("-out", str(folder / f"{name}.crt")),
        *("-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key"), "-CAcreateserial"),
    )


def kubeconfig(instance: instances.Instance, **user: str) -> str:
    """Return a kubeconfig for the cluster with this user, whole in itself, so that it serves in another place."""
    authority = _encoded(instance.state / "pki/ca.crt")
    server = {"server": f"https://{instance.address}", "certificate-authority-data": authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
    )


def _write_kubeconfig(instance: instances.Instance, folder: Path, name: str) -> None:
    pair = {"certificate": folder / f"{name}.crt", "key": folder / f"{name}.key"}
    path = instance.state / f"{name}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(kubeconfig(instance, **{f"client-{part}-data": _encoded(file) for part, file in pair.items()}))


def _encoded(file: Path) -> str:
    return b64encode(file.read_bytes()).decode()


def _openssl(*arguments: str) -> None:
    subprocess.run(("openssl", *arguments), check=True, capture_output=True, timeout=60)
