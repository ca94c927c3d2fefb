"""Offline repositories, made by the real createrepo_c in a host, and the files that they are made of."""

import base64
import contextlib
import dataclasses
import functools
import hashlib
import http.server
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from installer.host import chroot, rpm
from tests.host import rpms
from tests.installer import crashes, machines, sourcetrees

BOTH, FIRST, ODD, UNSIGNED, STRANGE = (
    f"file:///srv/{name}" for name in ("both", "first", "odd", "unsigned", "strange")
)

SIGNER, STRANGER = "signer", "stranger"


def _headers(release: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        sourcetrees.write_kernel_devel(Path(folder), release)
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*.*"))} | {
            "Makefile": Path(folder, "Makefile").read_bytes()
        }


KERNEL_DEVEL = rpms.kernel_devel(machines.KERNEL, _headers(machines.KERNEL))
MISNAMED = dataclasses.replace(
    rpms.kernel_devel(machines.KERNEL, _headers(rpms.OTHER_KERNEL)), release=f"{KERNEL_DEVEL.release}.1"
)
"""A package named after the running kernel that holds the headers of another one."""

BASE = (
    rpms.Package(
        name="openEuler-release",
        version="22.03LTS_SP4",
        relations=("Provides: system-release = 22.03", "Provides: /bin/sh"),
    ),
    rpms.Package(name="libnuma", version="1.0"),
)
"""The packages of the host's own rpm database: the shell of every scriptlet, and a library."""

_FIRST = (rpms.driver("2.0.1"), rpms.engine("2.0.1"), rpms.compression("2.0.1"))
_SECOND = (rpms.driver("2.0.2"), rpms.engine("2.0.2"), rpms.compression("2.0.2"))

WAITING = "if [ -p /run/wait ]; then touch /run/waits; cat /run/wait; fi"
"""A scriptlet that stands still while the host has the fifo /run/wait, once it has made /run/waits."""

_BIG = hashlib.shake_128().digest(2 << 20)
"""Two megabytes that nothing compresses."""

_ODD = (
    MISNAMED,
    rpms.driver("3.1", kernel=rpms.OTHER_KERNEL),
    rpms.driver("3.2", relations=("Requires: libnuma >= 3",)),
    rpms.driver("3.3", relations=("Conflicts: libnuma",)),
    rpms.driver("3.4", files={"/opt/big/file": _BIG}),
    rpms.driver("3.5", scriptlets={"%pre": "echo 'no licence'; exit 3"}),
    rpms.driver("3.6", scriptlets={"%preun": "echo 'module is busy'; exit 1"}),
    rpms.driver("3.7", relations=("Requires: libnuma >= 2",)),
    rpms.driver("3.8", relations=("Requires: libuadk",)),
    rpms.driver("3.9", scriptlets={"%post": WAITING}),
    rpms.driver(
        crashes.SPOILED,
        files={
            f"/lib/modules/{machines.KERNEL}/extra/hisi_zip.ko": crashes.spoiled_module(
                crashes.SPOILED, machines.KERNEL
            )
        },
    ),
    rpms.engine(crashes.SPOILED),
    rpms.Package(name="libnuma", version="2.0"),
    rpms.Package(name="libuadk", version="1.0"),
    rpms.Package(name="kae-zip", version="3.1", relations=("Requires: libuadk >= 1",)),
    rpms.Package(name="uadk-tools", files={"/usr/local/lib/libwd.so.2": b"another"}),
)
"""Packages by which something goes wrong, or goes a long way round."""

SHELVES: Mapping[str, tuple[tuple[rpms.Package, ...], str]] = MappingProxyType(
    {
        "both": ((*_FIRST, *_SECOND, KERNEL_DEVEL), SIGNER),
        "first": (_FIRST, SIGNER),
        "odd": (_ODD, SIGNER),
        "unsigned": ((_FIRST[0],), ""),
        "strange": ((_FIRST[0],), STRANGER),
    }
)


def stock(host: chroot.Host) -> None:
    """Fills /srv with the repositories, and has the host trust the signer."""
    built = "/srv/.built"
    for packages, _ in SHELVES.values():
        fresh = [package for package in packages if not host.path(f"{built}/{package.file}").exists()]
        if fresh:
            rpms.build(host, fresh, built)
    keys = {owner: rpms.make_key(host, owner) for owner in (SIGNER, STRANGER)}
    for name, (packages, owner) in SHELVES.items():
        put(host, f"/srv/{name}", [f"{built}/{package.file}" for package in packages])
        if owner:
            rpms.sign(host, owner, f"/srv/{name}")
        index(host, f"/srv/{name}")
    rpms.forget_keys(host)
    host.run("rpm", "--import", keys[SIGNER])
    host.remove_folder(built)


def put(host: chroot.Host, folder: str, paths: Iterable[str]) -> None:
    host.path(folder).mkdir(parents=True, exist_ok=True)
    for path in paths:
        shutil.copy(host.path(path), host.path(folder))


def index(host: chroot.Host, folder: str) -> str:
    """Makes a folder of the host a repository, or its index anew; returns its URL."""
    host.run("createrepo_c", "--quiet", "--no-database", folder)
    return f"file://{folder}"


def copy(host: chroot.Host, shelf: str = "first") -> str:
    folder = f"/srv/copy-of-{shelf}"
    shutil.copytree(host.path(f"/srv/{shelf}"), host.path(folder))
    return folder


@contextlib.contextmanager
def mirror(folder: Path, login: str = "") -> Iterator[str]:
    """Serves a folder by HTTP, with a login (user:password) to those alone who name it; its URL."""
    handler = functools.partial(type("Mirror", (_Mirror,), {"login": login}), directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Mirror(http.server.SimpleHTTPRequestHandler):
    login = ""

    def do_GET(self) -> None:
        basic = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        if self.login and self.headers.get("Authorization") != basic:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="mirror"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Says nothing on standard error."""


def install(host: chroot.Host, *names: str, shelf: str = "both") -> None:
    rpm.install(host, [file(name, shelf) for name in names])


def installed(host: chroot.Host) -> list[str]:
    listed = host.run("rpm", "-qa", "--queryformat", "%{NVRA}\n", "kae-*").splitlines()
    return sorted(line.removesuffix(".noarch") for line in listed)


def file(name: str, shelf: str = "both") -> str:
    """Return the path in the host of a package's file, by a name such as kae-driver-2.0.1-1."""
    return f"/srv/{shelf}/{name}.noarch.rpm"
