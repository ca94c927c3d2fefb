"""Paths of a host that no recipe gives to pods: what leads to the keys of the node, its disks or its memory."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from compiler.checks import lists
from compiler.diagnostics import Diagnostic, shared_rule
from compiler.formats import documents, globs, references

shared_rule(
    "privilege-refused",
    "error",
    "A recipe brings neither credentials, disks and memory of the node nor a runtime's socket to pods, and no glob of "
    "all devices, and its programs have no privilege that their cluster refuses.",
)

KUBELET = "/var/lib/kubelet"
_CLUSTER, _HOST, _RUNTIME = "credentials of the cluster", "credentials of the host", "the socket of a container runtime"
_IMAGES, _DISKS, _MEMORY = "the files of all containers", "the host's disks", "the host's memory"

_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "/etc/kubernetes": _CLUSTER,
        "/proc": "all processes of the host",
        KUBELET: "credentials of the kubelet and of other pods",
        **dict.fromkeys(
            (
                *("/run/containerd", "/run/cri-dockerd.sock", "/run/crio", "/run/docker", "/run/docker.sock"),
                *("/run/buildkit", "/run/dockershim.sock", "/run/isulad*", "/run/k0s", "/run/k3s", "/run/podman"),
                *("/etc/containerd", "/etc/crio", "/run/libvirt", "/run/nri"),
                *("/run/user/*/podman", "/run/user/*/docker.sock", "/run/user/*/containerd"),
            ),
            _RUNTIME,
        ),
        **dict.fromkeys(
            (
                *("/etc/cni", "/etc/rancher", "/home/*/.kube", "/var/lib/etcd", "/var/lib/k0s", "/var/lib/rancher"),
                *("/var/snap/k8s", "/var/snap/microk8s"),
            ),
            _CLUSTER,
        ),
        **dict.fromkeys(
            (
                *("/etc/containers", "/etc/docker", "/etc/gshadow*", "/etc/isulad", "/etc/krb5.keytab"),
                *("/etc/pki/consumer", "/etc/pki/entitlement", "/etc/pki/tls/private", "/etc/shadow*", "/etc/ssh"),
                *("/etc/ssl/private", "/etc/wireguard", "/home/*/.ssh", "/root", "/usr/etc", "/var/lib/cloud"),
                "/dev/tpm*",
            ),
            _HOST,
        ),
        **dict.fromkeys(("/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/lib/isulad"), _IMAGES),
        # On image-based systems (ostree) the file system of the host lies here a second time.
        **dict.fromkeys(("/ostree", "/sysroot"), "the host's files"),
        # The names of Documentation/admin-guide/devices.txt of the kernel, and udev's links to them.
        **dict.fromkeys(
            (
                *("/dev/bcache*", "/dev/block", "/dev/bsg", "/dev/disk", "/dev/dm-*", "/dev/drbd*", "/dev/hd[a-z]"),
                *("/dev/hd[a-z][0-9]*", "/dev/loop*", "/dev/mapper", "/dev/md", "/dev/md[0-9]*", "/dev/mmcblk*"),
                *("/dev/mtd[0-9]*", "/dev/mtdblock*", "/dev/nbd*", "/dev/ng[0-9]*", "/dev/nvme*", "/dev/pmem*"),
                *("/dev/raw", "/dev/rbd*", "/dev/root", "/dev/sd*", "/dev/sg[0-9]*", "/dev/vd*", "/dev/xvd*"),
                *("/dev/dasd*", "/dev/fd[0-9]*", "/dev/sr[0-9]*", "/dev/ublk*", "/dev/zd[0-9]*", "/dev/zram*"),
                # LVM's links to its volumes are below the name of their group, which distributions choose.
                *("/dev/centos*", "/dev/fedora*", "/dev/openeuler*", "/dev/rhel*", "/dev/vg*"),
            ),
            _DISKS,
        ),
        **dict.fromkeys(
            ("/dev/char", "/dev/core", "/dev/cpu", "/dev/dax*", "/dev/kmem", "/dev/mem", "/dev/oldmem", "/dev/port"),
            _MEMORY,
        ),
        **dict.fromkeys(
            ("/run/kae", "/run/kae-driver", "/run/kae-features.d", "/var/lib/kae"), "what driver installers go by"
        ),
        **dict.fromkeys(
            (
                *("/etc/cron*", "/etc/ld.so.preload", "/etc/modprobe.d", "/etc/sudoers*", "/etc/systemd", "/etc/udev"),
                *(
                    "/etc/NetworkManager",
                    "/etc/init.d",
                    "/etc/modules-load.d",
                    "/etc/pam.d",
                    "/etc/profile*",
                    "/etc/rc*",
                ),
                *("/etc/tmpfiles.d", "/run/modprobe.d", "/run/udev", "/usr/lib/modprobe.d", "/usr/lib/systemd"),
                *("/usr/lib/tmpfiles.d", "/usr/lib/udev", "/usr/local/lib/systemd", "/var/spool/cron"),
            ),
            "what the host runs as root",
        ),
        **dict.fromkeys(("/run/dbus", "/run/systemd"), "the socket of a service that acts as root"),
    }
)
"""Paths and globs of hosts that containers of other people never get, nor what is in them, and what is there."""

_DEVICES = "/dev/"


def of_recipe(
    source: documents.Document,
    kubelet: str | None = None,
    filled: tuple[Mapping[str, Any], references.Scope] | None = None,
) -> Iterator[Diagnostic]:
    """No container gets what leads to keys, disks or memory of the node; what a resource requires counts as mounted.

    `kubelet` is the root folder of a kubelet, in place of the usual paths. `filled` is the spec with values, and these:
    paths with references are judged with them alone, and the others without.
    """
    refused = _REFUSED if kubelet is None else {kubelet: _REFUSED[KUBELET]}
    spec, scope = filled or (source.data["spec"], {})

    def judged(found: Iterator[tuple[documents.Path, str]]) -> Iterator[tuple[documents.Path, str]]:
        for place, glob in found:
            own = references.origin(source.data, place, scope)
            if kubelet is not None or ("${" in source.value(own)) is (filled is not None):
                yield own, glob

    for path, resource in lists.items(("spec", "devicePlugin"), spec.get("devicePlugin", {}), "resources"):
        for place, glob in judged(_mounted(path, resource)):
            yield from _finding(
                source, place, glob, refused, "mount", "Name the files themselves that containers need."
            )
        for place, glob in judged(_nodes(path, resource)):
            if glob.removeprefix(_DEVICES).startswith(("*", "?", "[")) and kubelet is None:
                yield _refusal(
                    source,
                    place,
                    f"A recipe may not offer '{glob}', which takes any device of a host.",
                    ("'/dev' holds the host's disks and memory.",),
                    "Begin the name as those of the devices begin, such as /dev/npu*.",
                )
            else:
                yield from _finding(source, place, glob, refused, "offer", "Name the devices of the recipe alone.")


_OF_DEVICES = ("/dev/char",)
"""Refused to resources, whose containers may open it, and not to programs: it has links alone."""


def leads_to(path: str, kubelet: str) -> tuple[str, ...] | None:
    """Return notes on what is refused at a path of the host, in it or around it; None where nothing is.

    The path is "" for the root.
    """
    refused = {path: what for path, what in _REFUSED.items() if path not in _OF_DEVICES} | {kubelet: _REFUSED[KUBELET]}
    return _taken(path, refused)


def _taken(glob: str, refused: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return notes on what is refused of a path or a glob, as it stands or by a link; None where nothing is."""
    for link, real in (("", glob), *globs.behind_links(glob)):
        taken = next((taken for taken in refused if globs.share_branch(real, taken)), None)
        if taken is not None:
            leads = (f"'{link}' is a link to '{globs.LINKS[link]}'.",) if link else ()
            return (*leads, f"'{taken}' holds {refused[taken]}.")
    return None


def _mounted(path: documents.Path, resource: Mapping[str, Any]) -> Iterator[tuple[documents.Path, str]]:
    """Yield the paths and globs of the host that a resource mounts, each with its place."""
    yield from lists.items(path, resource, "requires")
    for place, part in lists.items(path, resource, "inject"):
        yield from (((*at, "path"), mount["path"]) for at, mount in lists.items(place, part, "mounts"))


def _nodes(path: documents.Path, resource: Mapping[str, Any]) -> Iterator[tuple[documents.Path, str]]:
    """Yield the device nodes of a resource, each with its place."""
    for field, inner in (("groups", "paths"), ("inject", "nodes")):
        for place, part in lists.items(path, resource, field):
            yield from (((*at, "path"), node["path"]) for at, node in lists.items(place, part, inner))


def _finding(  # noqa: PLR0913 - a path, where it stands, and the words for it
    source: documents.Document, place: documents.Path, glob: str, refused: Mapping[str, str], does: str, hint: str
) -> Iterator[Diagnostic]:
    """Yield the finding on a path or a glob that leads to something refused, as it stands or by a link."""
    notes = _taken(glob, refused)
    if notes is not None:
        yield _refusal(source, place, f"A recipe may not {does} '{glob}'.", notes, hint)


def _refusal(
    source: documents.Document, place: documents.Path, message: str, notes: tuple[str, ...], hint: str
) -> Diagnostic:
    return Diagnostic(code="privilege-refused", span=source.span(*place), message=message, notes=notes, hint=hint)
