"""containerd: its configuration, and the mount namespace in which it and the kubelet see this machine as their node."""

import json
import subprocess
from pathlib import Path

from tests.cluster.local import instances, processes, programs

PAUSE = "localhost/pause:1"
"""The image of every sandbox."""

HOST_FOLDERS = {"/run": "run", "/var/lib/cni": "cni-results", "/var/lib/kubelet": "kubelet", "/var/log": "log"}
"""The node's folders that lie in the state, so that it writes nowhere else: each of them holds paths that are fixed,
as of the sockets of containerd's shims, of what the network plugins said, and of the kubelet's device-plugins."""

_ENTER = (
    # Shared, as on a machine that systemd started: else a pod may not ask for mount propagation.
    "mount --make-rshared /"
    ' && while [ "$1" != -- ]; do mount --bind "$1" "$2" && shift 2 || exit; done'
    ' && shift && exec "$@"'
)


def containerd(instance: instances.Instance) -> processes.Program:
    """Return the program, not yet started, with its configuration written."""
    (instance.state / "cni").mkdir()
    (instance.state / "cni" / "10-kae.conflist").write_text(json.dumps(_network(instance)))
    configuration = instance.state / "containerd.toml"
    configuration.write_text(_configuration(instance))
    binds: list[str] = []
    for path, name in HOST_FOLDERS.items():
        (instance.state / name).mkdir(exist_ok=True)
        Path(path).mkdir(parents=True, exist_ok=True)
        binds += [str(instance.state / name), path]
    # A namespace of its own, private towards the machine: no mount of it shows outside or outlives its processes.
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _ENTER, "sh", *binds, "--"]
    return processes.Program(instance, "containerd", [*command, programs.path("containerd"), "-c", str(configuration)])


def socket(instance: instances.Instance) -> Path:
    return instance.state / "containerd.sock"


def ctr(instance: instances.Instance, *arguments: str) -> list[str]:
    """Return the command of containerd's own client, for the images and containers of the kubelet."""
    return [programs.path("ctr"), "--address", str(socket(instance)), "--namespace", "k8s.io", *arguments]


def answers(instance: instances.Instance) -> bool:
    asked = subprocess.run(ctr(instance, "version"), capture_output=True, timeout=300, check=False)
    return asked.returncode == 0


def _configuration(instance: instances.Instance) -> str:
    return f"""\
version = 2
root = "{instance.state}/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket(instance)}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  # Without CAP_SYS_RESOURCE no process may lower its OOM score, and runc fails where it tries.
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  conf_dir = "{instance.state}/cni"
  bin_dir = "/usr/lib/cni"
[plugins."io.containerd.internal.v1.opt"]
  path = "{instance.state}/containerd/opt"
"""


def _network(instance: instances.Instance) -> dict[str, object]:
    """Return a pair of interfaces a pod. It ends with the pod's network namespace, unlike a bridge."""
    addresses = {
        "type": "host-local",
        "dataDir": f"{instance.state}/addresses",
        "ranges": [[{"subnet": instance.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "0.4.0",  # The newest that containerd 1.6 knows.
        "name": "kae",
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}],
    }
