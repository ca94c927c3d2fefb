"""The programs and files that the cluster is made of, where they lie, and which of them this machine lacks."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import tools

SOURCES = Path(__file__).resolve().parents[1] / "go"
"""One Go module for each program set: versions in its go.mod, digests of all that is built in its go.sum."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSet:
    """Programs that one Go module of `SOURCES` builds."""

    name: str
    """The folder of its go.mod."""

    packages: Mapping[str, str] = field(default_factory=dict)
    module: str = ""
    """The module whose version, as go.mod requires it, is that of the programs and the files."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Files that are copied beside the programs, by their paths in the module."""

    stamps: tuple[str, ...] = ()
    """The Go packages with variables for that version: unstamped, a program calls itself v0.0.0-master, and clients
    compare with that."""

    tags: str = ""
    """Go's build tags of programs with parts in C, which the C compiler builds."""

    @property
    def names(self) -> Sequence[str]:
        return (*self.packages, *self.files)

    def version(self) -> str:
        """Return the version that go.mod pins, as in v1.36.3."""
        words = (line.partition("//")[0].split() for line in self._go_mod().splitlines())
        return next((entry[-1] for entry in words if entry[-2:-1] == [self.module] and "=>" not in entry), "")

    def linker_flags(self) -> str:
        version = self.version()
        major, _, rest = version.removeprefix("v").partition(".")
        minor = rest.partition(".")[0]
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        variables = (f"-X {package}.{name}={value}" for package in self.stamps for name, value in values.items())
        return " ".join(("-s", "-w", *variables))

    def stamp(self) -> str:
        sources = "".join(path.read_text() for path in sorted((SOURCES / self.name).glob("*.go")))
        return hashlib.sha256(f"{self._go_mod()}\n{self.linker_flags()}\n{sources}".encode()).hexdigest()

    def lacking(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if not self._is_built(name))

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
"""The programs that every cluster test needs. For a further program, add a folder with a go.mod, and an entry here."""

_CONTAINERD = "github.com/containerd/containerd/v2"
RUNTIMES = (
    ProgramSet(
        name="containerd",
        module=_CONTAINERD,
        packages={
            f"containerd-2/{name}": f"{_CONTAINERD}/cmd/{name}"
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
    ),
    ProgramSet(
        name="runc",
        module="github.com/opencontainers/runc",
        packages={"containerd-2/runc": "github.com/opencontainers/runc"},
        tags="seccomp",
    ),
)
"""Container runtimes in place of the machine's own: KAE_CLUSTER_RUNTIME names the folder of one, as in containerd-2."""

_FLUX = "config/crd/bases/source.toolkit.fluxcd.io"
_MONITORING = "example/prometheus-operator-crd/monitoring.coreos.com"
ENGINES = (
    ProgramSet(
        name="argocd",
        module="github.com/argoproj/argo-cd/v3",
        packages={"argocd": "."},
        files={
            f"{kind}s.argoproj.io.yaml": f"manifests/crds/{kind}-crd.yaml" for kind in ("application", "appproject")
        },
    ),
    # Argo CD runs it where a folder holds a kustomization.yaml.
    ProgramSet(name="kustomize", packages={"kustomize": "sigs.k8s.io/kustomize/kustomize/v5"}),
    ProgramSet(
        name="kustomize-controller",
        module="github.com/fluxcd/kustomize-controller",
        packages={"kustomize-controller": "github.com/fluxcd/kustomize-controller"},
        files={
            "kustomizations.kustomize.toolkit.fluxcd.io.yaml": (
                "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml"
            )
        },
    ),
    # Only for its definitions: the program needs a module that no proxy has.
    ProgramSet(
        name="source-controller",
        module="github.com/fluxcd/source-controller",
        files={
            f"{plural}.source.toolkit.fluxcd.io.yaml": f"{_FLUX}_{plural}.yaml"
            for plural in ("buckets", "externalartifacts", "gitrepositories", "ocirepositories")
        },
    ),
    # Only for its definitions, too.
    ProgramSet(
        name="prometheus-operator",
        module="github.com/prometheus-operator/prometheus-operator",
        files={
            f"{plural}.monitoring.coreos.com.yaml": f"{_MONITORING}_{plural}.yaml"
            for plural in ("podmonitors", "prometheusrules")
        },
    ),
    # Likewise.
    ProgramSet(
        name="openshift",
        module="github.com/openshift/api",
        files={
            "securitycontextconstraints.security.openshift.io.yaml": (
                "security/v1/0000_03_security-openshift_01_scc.crd.yaml"
            )
        },
    ),
)
"""The programs that tests of manifests need in addition: the GitOps engines, and the CRDs of other projects."""

RELEASE = (
    ProgramSet(
        name="cosign",
        module="github.com/sigstore/cosign/v3",
        packages={"cosign": "github.com/sigstore/cosign/v3/cmd/cosign"},
    ),
    ProgramSet(name="registry", module="github.com/distribution/distribution/v3", packages={"registry": "."}),
    ProgramSet(name="syft", module="github.com/anchore/syft", packages={"syft": "github.com/anchore/syft/cmd/syft"}),
    # Only for its schemas.
    ProgramSet(
        name="cyclonedx",
        module="github.com/CycloneDX/cyclonedx-go",
        files={
            "bom-1.6.schema.json": "schema/bom-1.6.schema.json",
            "jsf-0.82.schema.json": "schema/jsf-0.82.schemax.json",
            "spdx.schema.json": "schema/spdx.schema.json",
        },
    ),
)
"""The programs with which tests/images makes and verifies a release; no cluster needs them."""


def folder() -> Path:
    return Path(os.environ.get("KAE_CLUSTER_BIN") or Path.home() / ".cache/kae-cluster/bin")


def search_path() -> str:
    """Return the folders of programs, as in PATH: those of the chosen runtime and the built ones first."""
    runtime = os.environ.get("KAE_CLUSTER_RUNTIME")
    chosen = (str(folder() / runtime),) if runtime else ()
    return os.pathsep.join((*chosen, str(folder()), os.environ["PATH"], "/usr/sbin", "/sbin"))


def stamp_file(name: str) -> Path:
    program = folder() / name
    return program.with_name(f".{program.name}.stamp")


def path(name: str) -> str:
    """Return the program of this name: the one built here, else the machine's."""
    return shutil.which(name, path=search_path()) or name


def obstacles() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "The cluster's tests need root: its containers, mounts and cgroups are real."
    else:
        yield from missing_tools()


def missing_tools() -> Iterator[str]:
    yield from tools.packages((path(command), package) for command, package in DEBIAN.items())
    yield from lacking((*SETS, *RUNTIMES) if os.environ.get("KAE_CLUSTER_RUNTIME") else SETS)


def lacking(sets: Sequence[ProgramSet]) -> Iterator[str]:
    """Yield what is not there of these sets: a sentence that says what to do, or none."""
    names = [name for programs in sets for name in programs.lacking()]
    if names:
        yield f"Missing in {folder()}, or of another version: {', '.join(names)}. Run: make cluster-tools"
