"""The changes that a cluster makes to the machine, and their undoing: an address, kernel settings, nodes in /dev."""

import json
import subprocess
from pathlib import Path

from tests.cluster.local import instances

_CHANGED = (
    "net/ipv4/ip_forward",  # The network plugin ptp switches it on.
    # The kubelet sets these on every node (pkg/kubelet/cm: setupKernelTunables).
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
_SETTINGS = Path("/proc/sys")
_DEVICES = "hisi_*"
OWN_DEVICES = "This machine has accelerators of its own, and fake ones would take their place in /dev: use another one."


def prepare(instance: instances.Instance) -> None:
    """Record the kernel settings, then add the cluster's address to the loopback interface."""
    values = {name: (_SETTINGS / name).read_text() for name in _CHANGED if (_SETTINGS / name).exists()}
    (instance.state / "settings.json").write_text(json.dumps(values))
    _ip("address", "add", f"{instance.address}/32", "dev", "lo")


def restore(instance: instances.Instance) -> None:
    """Undo `prepare` and later changes; do nothing where nothing was done."""
    if instance.address in _ip("-oneline", "address", "show", "dev", "lo"):
        _ip("address", "delete", f"{instance.address}/32", "dev", "lo")
    return_devices(instance)
    recorded = instance.state / "settings.json"
    if recorded.exists():
        for name, value in json.loads(recorded.read_text() or "{}").items():
            if (_SETTINGS / name).read_text() != value:
                (_SETTINGS / name).write_text(value)


def own_devices() -> bool:
    return any(Path("/sys/class/uacce").glob("*"))


def take_devices(instance: instances.Instance) -> None:
    """Record that nodes of accelerators in /dev are this cluster's from here on."""
    (instance.state / "devices").touch()


def return_devices(instance: instances.Instance) -> None:
    """Remove the nodes of accelerators from /dev, where they are this cluster's."""
    if (record := instance.state / "devices").exists():
        for path in Path("/dev").glob(_DEVICES):
            path.unlink(missing_ok=True)
        record.unlink()


def mounts(folder: Path) -> tuple[str, ...]:
    """Return the mount points at or below this folder, innermost first."""
    # The fifth field is the mount point, see proc_pid_mountinfo(5).
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return tuple(sorted((point for point in points if Path(point).is_relative_to(folder)), reverse=True))


def unmount(folder: Path) -> None:
    """Unmount everything at or below this folder, so that its deletion touches nothing else."""
    for point in mounts(folder):
        subprocess.run(("umount", "--lazy", point), check=True, capture_output=True, timeout=30)


def _ip(*arguments: str) -> str:
    return subprocess.run(("ip", *arguments), check=True, capture_output=True, text=True, timeout=30).stdout
