"""A control plane of its own: etcd, API server, controller manager and scheduler, on ports of 127.0.0.1.

It needs no root, and everything that it writes is in a temporary folder, which goes with it.
"""

import base64
import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from compiler import errors, wording
from compiler.kube import client, credentials

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The programs."""

AGENT = "kae-rehearse"
"""The User-Agent of the requests."""

_HOST = "127.0.0.1"
_START_S, _PAUSE_S = 300, 0.1
_HINT = "Name the folder of Kubernetes' server programs and etcd by --programs, or an empty cluster by --kubeconfig."
_SEC1 = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")
"""What stands around the number of a private key on P-256 (RFC 5915); the public half follows from it."""


def found(folder: str | None) -> Mapping[str, str]:
    """Return the path of each program, in the folder or on PATH. Raises WorldError."""
    path = os.pathsep.join([*([folder] if folder else []), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    paths = {name: shutil.which(name, path=path) or "" for name in NAMES}
    if lacking := [name for name, place in paths.items() if not place]:
        raise errors.WorldError(f"{wording.listed(lacking)} cannot be found, and a rehearsal needs them.", hint=_HINT)
    return {name: str(Path(place).resolve()) for name, place in paths.items()}


@contextlib.contextmanager
def running(paths: Mapping[str, str]) -> Iterator[Path]:
    """Yield the kubeconfig of a new control plane, which ends with the context. Raises WorldError."""
    with tempfile.TemporaryDirectory(prefix="kae-rehearse-") as name, contextlib.ExitStack() as stack:
        folder, token = Path(name), secrets.token_hex(16)
        etcd, port = f"http://{_HOST}:{_port()}", _port()
        _write(folder / "tokens.csv", f'{token},admin,admin,"system:masters"\n')
        _write(folder / "accounts.key", _key())
        _write(folder / "kubeconfig", _kubeconfig(folder, port, token))
        made = {
            "etcd": _etcd(folder, etcd),
            "kube-apiserver": _api_server(folder, etcd, port),
            "kube-controller-manager": _controllers(folder),
            "kube-scheduler": [f"--kubeconfig={folder}/kubeconfig", "--leader-elect=false", "--secure-port=0"],
        }
        started: dict[str, subprocess.Popen[bytes]] = {}
        connection = client.Connection(credentials.of_files([folder / "kubeconfig"]), AGENT)
        stack.callback(connection.close)
        for each, options in made.items():
            if each == "kube-controller-manager":
                _wait(folder, started, connection, "/readyz")
            started[each] = stack.enter_context(_program(folder, each, [paths[each], *options]))
        _wait(folder, started, connection, "/api/v1/namespaces/default/serviceaccounts/default")
        yield folder / "kubeconfig"


@contextlib.contextmanager
def _program(folder: Path, name: str, command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; at the end kill it, as its state is thrown away."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - the programs that were found, without a shell
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait(
    folder: Path, started: Mapping[str, subprocess.Popen[bytes]], connection: client.Connection, path: str
) -> None:
    """Wait until the API server answers a request well. Raises WorldError where a program ends, or it takes long."""
    deadline = time.monotonic() + _START_S
    while not _answers(folder, connection, path):
        ended = next((name for name, process in started.items() if process.poll() is not None), None)
        if ended or time.monotonic() > deadline:
            name = ended or [*started][-1]
            said = (folder / f"{name}.log").read_text("utf-8", "replace").strip().splitlines()
            fault = "has ended" if ended else f"is not ready after {_START_S} s"
            raise errors.WorldError(
                f"{name} {fault}: {wording.escaped(said[-1][:300]) if said else 'it printed nothing'}.", hint=_HINT
            )
        time.sleep(_PAUSE_S)


def _answers(folder: Path, connection: client.Connection, path: str) -> bool:
    # The API server makes its certificate as it starts.
    if not (folder / "certificates/apiserver.crt").exists():
        return False
    try:
        return connection.ask(client.Request(action="get ready", path=path)).ok
    except (client.Unreachable, credentials.NoAccess):
        connection.close()
        return False


def _port() -> int:
    with socket.socket() as taken:
        taken.bind((_HOST, 0))
        port: int = taken.getsockname()[1]
        return port


def _key() -> str:
    """Return a private key, with which the API server signs the tokens of pods."""
    begin, end = _SEC1
    # Below the order of the curve, which begins with FFFFFFFF00.
    number = bytes([secrets.randbelow(127) + 1]) + secrets.token_bytes(31)
    text = base64.b64encode(begin + number + end).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n"


def _kubeconfig(folder: Path, port: int, token: str) -> str:
    authority = f"{folder}/certificates/apiserver.crt"
    cluster = {"server": f"https://{_HOST}:{port}", "certificate-authority": authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "own",
            "clusters": [{"name": "own", "cluster": cluster}],
            "users": [{"name": "own", "user": {"token": token}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        }
    )


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _etcd(folder: Path, url: str) -> list[str]:
    return [
        f"--data-dir={folder}/etcd",
        "--unsafe-no-fsync",  # Nothing of it is kept.
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://{_HOST}:0",
    ]


def _api_server(folder: Path, etcd: str, port: int) -> list[str]:
    return [
        f"--etcd-servers={etcd}",
        f"--bind-address={_HOST}",
        f"--advertise-address={_HOST}",
        f"--secure-port={port}",
        f"--cert-dir={folder}/certificates",
        "--endpoint-reconciler-type=none",  # It refuses such an address, and nobody reads the endpoints.
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder}/accounts.key",
        f"--service-account-signing-key-file={folder}/accounts.key",
        f"--token-auth-file={folder}/tokens.csv",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
    ]


def _controllers(folder: Path) -> list[str]:
    return [
        f"--kubeconfig={folder}/kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        # On a busy machine the signs of life of many nodes are late.
        *("--node-monitor-grace-period=10m", "--node-startup-grace-period=10m"),
        # At the default, 20 a second, its own start takes five seconds.
        *("--kube-api-qps=500", "--kube-api-burst=1000"),
    ]
