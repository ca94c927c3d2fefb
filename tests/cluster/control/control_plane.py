"""The control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.control import api, certificates
from tests.cluster.local import instances, processes, programs, waiting

_KUBECTL_S = 300


class KubectlFailed(waiting.NotYet):
    """kubectl ended with an error; the text is what it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    instance: instances.Instance
    api: api.Api
    programs: Sequence[processes.Program]

    @property
    def kubeconfig(self) -> Path:
        return self.instance.kubeconfig

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        done = subprocess.run(
            (programs.path("kubectl"), *arguments),
            input=text or "",
            capture_output=True,
            encoding="utf-8",
            env=processes.environment(self.instance),
            timeout=_KUBECTL_S,
            check=False,
        )
        if done.returncode:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", text=listed(objects))

    def delete(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl("delete", "-f", "-", "--ignore-not-found", "--wait=true", text=listed(objects))

    def program(self, name: str) -> processes.Program:
        return next(program for program in self.programs if program.name == name)


def listed(objects: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@contextlib.contextmanager
def running(instance: instances.Instance) -> Iterator[ControlPlane]:
    """A control plane, from nothing: the API server is ready and the controllers have begun."""
    pki = certificates.write(instance)
    client = api.Api(instance.address, pki)
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(processes.Program(instance, "etcd", _etcd(instance)))
        server = stack.enter_context(processes.Program(instance, "kube-apiserver", _api_server(instance, pki)))
        waiting.until("kube-apiserver", client.is_ready, programs=(etcd, server))
        controllers = processes.Program(instance, "kube-controller-manager", _controller_manager(instance, pki))
        stack.enter_context(controllers)
        scheduler = stack.enter_context(processes.Program(instance, "kube-scheduler", _scheduler(instance)))
        waiting.until(
            "the service account 'default', which the controllers make",
            lambda: client.get("/api/v1/namespaces/default/serviceaccounts/default"),
            programs=(controllers, scheduler),
        )
        yield ControlPlane(instance=instance, api=client, programs=(etcd, server, controllers, scheduler))


def _etcd_url(instance: instances.Instance) -> str:
    return f"http://{instance.address}:2379"


def _etcd(instance: instances.Instance) -> list[str]:
    return [
        programs.path("etcd"),
        f"--data-dir={instance.state}/etcd",
        "--unsafe-no-fsync",  # Nothing here outlives the machine.
        f"--listen-client-urls={_etcd_url(instance)}",
        f"--advertise-client-urls={_etcd_url(instance)}",
        "--listen-peer-urls=http://127.0.0.1:0",
    ]


def _api_server(instance: instances.Instance, pki: Path) -> list[str]:
    return [
        programs.path("kube-apiserver"),
        f"--etcd-servers={_etcd_url(instance)}",
        f"--bind-address={instance.address}",
        "--secure-port=443",  # The port of the service `kubernetes`, whose address this is.
        f"--advertise-address={instance.address}",
        "--endpoint-reconciler-type=none",  # Nobody reads the endpoints: no kube-proxy runs.
        f"--service-cluster-ip-range={instance.services}",
        f"--tls-cert-file={pki}/server.crt",
        f"--tls-private-key-file={pki}/server.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-account.key",
        f"--service-account-signing-key-file={pki}/service-account.key",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
    ]


def _controller_manager(instance: instances.Instance, pki: Path) -> list[str]:
    return [
        programs.path("kube-controller-manager"),
        f"--kubeconfig={instance.state}/kube-controller-manager.kubeconfig",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={pki}/service-account.key",
        f"--root-ca-file={pki}/ca.crt",
        "--leader-elect=false",
        f"--bind-address={instance.address}",
        # Nodes without a kubelet, and on a busy machine those with one, are late with their heartbeats.
        *("--node-monitor-grace-period=10m", "--node-startup-grace-period=10m"),
        # At the default, 20 a second, its own start takes five seconds.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def _scheduler(instance: instances.Instance) -> list[str]:
    return [
        programs.path("kube-scheduler"),
        f"--kubeconfig={instance.state}/kube-scheduler.kubeconfig",
        "--leader-elect=false",
        f"--bind-address={instance.address}",
    ]
