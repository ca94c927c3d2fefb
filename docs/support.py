"""Write docs/support.md: with which releases the tests run, by the versions that they pin."""

from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate

from compiler.planning import supported
from compiler.project.recipes import copies
from compiler.settings import Settings
from docs import catalogue, markdown
from tests.cluster.local import programs

PAGE = Path(__file__).resolve().parent / "support.md"

_HEAD = """\
# Support

What the tests ran. `make docs` generates this page from the versions that tests pin.

- **Tested**: a test runs the real program.
- **Rendered**: manifests are compiled for it, and judged by its schemas or by stand-ins. It did not run itself.
- **Untried**: nothing is known. It may work; tell us.

No test has run on the accelerators themselves: devices and some modules are stand-ins.
"""

_SYSTEMS = (
    (
        "Debian 12, kernel 6.1, amd64",
        "tested",
        "`make test-vm` swaps drivers on its kernel in QEMU, `make test-cluster` runs pods",
    ),
    ("openEuler 22.03 LTS", "rendered", "rpm and dnf are real, on Debian, with openEuler's settings and package names"),
    ("OpenShift", "rendered", "SecurityContextConstraints are judged by its definition"),
    ("arm64", "rendered", "a release builds its images on an arm64 machine; no test runs on one"),
    ("Ubuntu, RHEL, SLES, other systems", "untried", ""),
)


def text() -> str:
    """Return the text of the page."""
    head = ("release", "state", "how")
    tables = (
        ("Kubernetes", head, _kubernetes()),
        ("Node Feature Discovery (NFD)", head, _nfd()),
        ("Container runtimes", head, _runtimes()),
        ("GitOps engines", head, _engines()),
        ("Operating systems", ("system", "state", "how"), iter(_SYSTEMS)),
        ("Stacks", ("stack", "state", "how"), _stacks()),
        ("Together", ("tests", "Kubernetes", "runtime", "system", "NFD", "stacks"), _together()),
    )
    return _HEAD + "".join(f"\n## {title}\n\n{markdown.table(head, rows)}" for title, head, rows in tables)


def _version(folder: str) -> str:
    """Return the version of a program of the tests' cluster."""
    return next(
        known.version() for known in (*programs.SETS, *programs.RUNTIMES, *programs.ENGINES) if known.name == folder
    )


def _kubernetes() -> Iterator[markdown.Row]:
    real = _version("kubernetes")
    minor = int(real.split(".")[1])
    last = int(kubernetes_validate.latest_version().split(".")[1])
    yield f"1.{minor}", "tested", f"API server, scheduler and kubelet {real}; diff, apply and pods"
    for first, end in ((minor + 1, last), (supported.OLDEST_KUBERNETES, minor - 1)):
        if first <= end:
            releases = f"1.{first} to 1.{end}" if first < end else f"1.{first}"
            yield releases, "rendered", "judged by the strict schemas of each release"
    yield f"1.{max(minor, last) + 1} and newer", "untried", "compiled as the newest known"
    yield f"1.{supported.OLDEST_KUBERNETES - 1} and older", "refused", "a finding"


def _nfd() -> Iterator[markdown.Row]:
    minors = [minor for minor in range(1, 100) if supported.nfd_minor(f"v0.{minor}.0")]
    how = "rules are judged by a second implementation; the real NFD where `NFD_PROGRAMS` names its programs"
    yield f"0.{min(minors)} to 0.{max(minors)}", "rendered", how
    yield "others", "refused", "a finding"


def _runtimes() -> Iterator[markdown.Row]:
    yield "containerd 1, of Debian 12", "tested", "pods and device plugins; DRA needs containerd 2"
    yield (
        f"containerd {_version('containerd')}, runc {_version('runc')}",
        "tested",
        "device plugins, DRA and its handover",
    )
    yield "CRI-O and others", "untried", ""


def _engines() -> Iterator[markdown.Row]:
    yield f"Argo CD {_version('argocd')}", "tested", "applies, prunes, undoes additions, brings a driver to a node"
    controllers = (
        f"kustomize-controller {_version('kustomize-controller')}, source-controller {_version('source-controller')}"
    )
    yield f"Flux: {controllers}", "tested", "the same"
    yield "kubectl apply", "tested", "the same manifests, without pruning"


def _stacks() -> Iterator[markdown.Row]:
    how = "stub modules with its names on a real kernel; its own modules where `KAE_DRIVER_SOURCE` names them"
    yield "KAE", "tested, without hardware", how
    for shipped in copies.shipped(Settings()):
        said = catalogue.TRIED[shipped.name]
        real = [word for word, folder in (("modules", "vm"), ("pods", "cluster")) if f"../tests/{folder}/" in said]
        state = f"tested, without hardware: {' and '.join(real)}" if real else "rendered"
        yield shipped.name, state, f"[what was tried](catalogue.md#{shipped.name})"


def _together() -> Iterator[markdown.Row]:
    real, system = _version("kubernetes"), "Debian 12"
    stand_in = "none: labels are set"
    yield "`make test-cluster`", real, "containerd 1", system, stand_in, "KAE, recipes"
    yield "`make test-cluster`, DRA", real, f"containerd {_version('containerd')}", system, stand_in, "KAE, recipes"
    yield "`make test-gitops`, `make test-loop`", real, "containerd 1", system, stand_in, "KAE"
    yield (
        "`make test-vm`",
        f"{real} in one test",
        "none: the installer runs alone",
        f"{system} in QEMU",
        "none",
        "KAE, simple-kmod, onload",
    )
