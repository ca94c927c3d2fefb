"""An instance of the cluster: its number, and the folder, the addresses and the cgroup that follow from it."""

import os
from dataclasses import dataclass
from pathlib import Path

NODE = "kae-node-0"
_OF_A_WORKER = 2
"""test_leftovers.py has the next number, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One cluster of this machine. Clusters of different numbers share nothing, so several can run at once.

    The addresses are of 198.18.0.0/15, the range that RFC 2544 sets apart for tests: no network uses it.
    """

    number: int

    @property
    def state(self) -> Path:
        """Everything that the cluster writes. Its name is short, as the path of a unix socket has 107 bytes."""
        return _folder() / str(self.number)

    @property
    def lock(self) -> Path:
        """The file that the owner of the cluster and its keeper lock."""
        return _folder() / f"{self.number}.lock"

    @property
    def cgroup(self) -> str:
        """The cgroup, below the root, of every program and every pod."""
        return f"kae-cluster-{self.number}"

    @property
    def address(self) -> str:
        """The machine's own address of every program, and of the service `kubernetes`: no kube-proxy runs."""
        return f"198.18.{self.number}.1"

    @property
    def services(self) -> str:
        """The addresses of services. The first one is `address`."""
        return f"198.18.{self.number}.0/24"

    @property
    def pods(self) -> str:
        """The addresses of pods that have a network of their own."""
        return f"198.19.{self.number}.0/24"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "admin.kubeconfig"

    def log(self, program: str) -> Path:
        """Return what a program has written. The node sees this folder as its /var/log."""
        return self.state / "log" / f"{program}.log"


def configured() -> Instance:
    """Return the cluster that KAE_CLUSTER_NUMBER names (0 to 255), or 0; a worker of pytest-xdist has its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return Instance(number=(int(os.environ.get("KAE_CLUSTER_NUMBER") or 0) + _OF_A_WORKER * worker) % 256)


def _folder() -> Path:
    """KAE_CLUSTER_STATE: on a file system that overlayfs can lie upon, and not below /run or /var/log."""
    return Path(os.environ.get("KAE_CLUSTER_STATE") or "/var/lib/kae-cluster")
