"""The programs that the cluster is made of, where they lie, and which of them this machine lacks."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "go"
"""One Go module a program set: the versions stand in its go.mod, the digests of all that is built in its go.sum."""

DEBIAN: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "etcd": "etcd-server",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "unshare": "util-linux",
    "/usr/lib/cni/host-local": "containernetworking-plugins",
    "/usr/lib/cni/loopback": "containernetworking-plugins",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
"""The commands that Debian's packages bring, and which package brings each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSet:
    """Programs that one Go module of `SOURCES` builds."""

    name: str
    """The folder of its go.mod."""

    packages: Mapping[str, str]
    """The Go package of each program."""

    module: str = ""
    """The module whose version, as go.mod requires it, the programs shall call themselves by."""

    stamps: tuple[str, ...] = ()
    """The Go packages with variables for that version: unstamped, a program calls itself v0.0.0-master, and clients
    compare with that."""

    def version(self) -> str:
        """The version that go.mod pins, as in v1.36.3."""
        words = (line.partition("//")[0].split() for line in self._go_mod().splitlines())
        return next((entry[-1] for entry in words if self.module in entry[:2] and "=>" not in entry), "")

    def linker_flags(self) -> str:
        """What the linker is told: no symbol tables, and the version."""
        version = self.version()
        major, _, rest = version.removeprefix("v").partition(".")
        minor = rest.partition(".")[0]
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        variables = (f"-X {package}.{name}={value}" for package in self.stamps for name, value in values.items())
        return " ".join(("-s", "-w", *variables))

    def stamp(self) -> str:
        """Stands beside a program that was built from exactly this; another go.mod gives another one."""
        return hashlib.sha256(f"{self._go_mod()}\n{self.linker_flags()}\n".encode()).hexdigest()

    def lacking(self) -> tuple[str, ...]:
        """The programs that are not built, or not at this version."""
        return tuple(name for name in self.packages if not self._is_built(name) and not _from_assets(name))

    def _is_built(self, name: str) -> bool:
        stamp = stamp_file(name)
        return (folder() / name).exists() and stamp.exists() and stamp.read_text() == self.stamp()

    def _go_mod(self) -> str:
        return (SOURCES / self.name / "go.mod").read_text()


SETS = (
    ProgramSet(
        name="kubernetes",
        module="k8s.io/kubernetes",
        packages={
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
        },
        stamps=("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
    ),
    ProgramSet(name="pause", packages={"pause": "."}),
)
"""A further program is a folder with a go.mod, and an entry here."""


def folder() -> Path:
    """Where built programs lie, outside of the repository: KAE_CLUSTER_BIN."""
    return Path(os.environ.get("KAE_CLUSTER_BIN") or Path.home() / ".cache/kae-cluster/bin")


def stamp_file(name: str) -> Path:
    """What tells which source a program was built from."""
    return folder() / f".{name}.stamp"


def path(name: str) -> str:
    """The program of this name: of KUBEBUILDER_ASSETS for what it holds, else ours, else the machine's."""
    return _from_assets(name) or shutil.which(name, path=os.pathsep.join((str(folder()), os.environ["PATH"]))) or name


def obstacles() -> Iterator[str]:
    """What keeps the cluster from running here: sentences, each of which says what to do."""
    if os.geteuid() != 0:
        yield "The cluster's tests need root: its containers, mounts and cgroups are real."
    else:
        yield from missing_tools()


def missing_tools() -> Iterator[str]:
    """What this machine lacks: sentences, each of which says what to do."""
    packages = sorted({package for command, package in DEBIAN.items() if shutil.which(path(command)) is None})
    if packages:
        yield f"Debian packages are missing: apt-get install --no-install-recommends {' '.join(packages)}"
    lacking = [name for programs in SETS for name in programs.lacking()]
    if lacking:
        yield f"Missing in {folder()}, or of another version: {', '.join(lacking)}. Run: make cluster-tools"


def _from_assets(name: str) -> str | None:
    """The program as controller-runtime's envtest unpacks it: kube-apiserver, etcd and kubectl, in one folder."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    return shutil.which(name, path=assets) if assets else None
