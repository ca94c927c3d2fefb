"""Small rpms of KAE's package names, made by the real rpmbuild and signed by the real rpmsign, in a root.

The scriptlets do what those of KAE's own packages do (scripts/specFile/kae.spec there), traps included: during an
upgrade the old package's %preun unloads, after the new one's %post has loaded, and a removal deletes options files
whoever wrote them.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from installer.host import chroot
from tests.installer import machines, modulefiles

OTHER_KERNEL = "5.10.0-182.0.0.95.oe2203sp3.aarch64"
"""Of openEuler 22.03 LTS SP3."""

_WORK = "/srv/.work"
_KINDS = modulefiles.DRIVER[2:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The content of one rpm. All are noarch, so that they install on every machine that runs tests."""

    name: str
    version: str = "2.0.1"
    release: str = "1"
    relations: Sequence[str] = ()
    """Lines of a spec's preamble, as in Requires: kae-driver."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    scriptlets: Mapping[str, str] = field(default_factory=dict)
    """By name, as in %post. Debian's /bin/sh is no bash."""

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-{self.release}.noarch.rpm"

    def spec(self, payload: str) -> str:
        lines = [
            "%global debug_package %{nil}",
            "%global __os_install_post %{nil}",
            "%global _binaries_in_noarch_packages_terminate_build 0",
            f"Name: {self.name}",
            f"Version: {self.version}",
            f"Release: {self.release}",
            f"Summary: {self.name}",
            "License: Apache-2.0",
            "BuildArch: noarch",
            "AutoReqProv: no",
            *self.relations,
            "%description",
            f"{self.name}.",
            "%install",
            f"cp -a {payload}/. %{{buildroot}}/",
            "%files",
            *(f"%config(noreplace) {path}" if path.startswith("/etc/") else path for path in self.files),
        ]
        lines += [f"{name}\n{text}" for name, text in self.scriptlets.items()]
        return "\n".join((*lines, ""))


def driver(
    version: str,
    *,
    kernel: str = machines.KERNEL,
    relations: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
    scriptlets: Mapping[str, str] | None = None,
) -> Package:
    """KAE's package of kernel modules; files and scriptlets are added to its own, or take their place."""
    made = modulefiles.driver(version, kernel)
    modules = {f"/lib/modules/{kernel}/extra/{name}": content for name, content in made.items()}
    options = {f"/etc/modprobe.d/{name}.conf": f"{_options(name)}\n".encode() for name in _KINDS}
    return Package(
        name="kae-driver",
        version=version,
        relations=relations,
        files=modules | options | {"/usr/local/lib/libwd.so.2": version.encode()} | dict(files or {}),
        scriptlets=_scriptlets(kernel) | dict(scriptlets or {}),
    )


def engine(version: str) -> Package:
    files = {"/usr/local/lib/engines-1.1/kae.so": version.encode()}
    return Package(name="kae-openssl", version=version, relations=("Requires: kae-driver",), files=files)


def compression(version: str) -> Package:
    files = {"/usr/local/kaezip/lib/libkaezip.so": version.encode()}
    return Package(name="kae-zip", version=version, relations=("Requires: kae-driver",), files=files)


def kernel_devel(kernel: str, files: Mapping[str, bytes]) -> Package:
    """The package that modules are compiled against, found by `kernel-devel-<release>` with the architecture."""
    version, _, rest = kernel.partition("-")
    return Package(
        name="kernel-devel",
        version=version,
        release=rest.rpartition(".")[0],
        relations=(f"Provides: kernel-devel-{kernel}",),
        files={f"/usr/src/kernels/{kernel}/{name}": content for name, content in files.items()},
    )


def build(host: chroot.Host, packages: Iterable[Package], folder: str) -> None:
    specs = []
    for package in packages:
        work = f"{_WORK}/{package.file}"
        host.path(f"{work}/payload").mkdir(parents=True)
        for path, content in package.files.items():
            place = host.path(f"{work}/payload{path}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        specs.append(f"{work}/{package.name}.spec")
        host.path(specs[-1]).write_text(package.spec(f"{work}/payload"))
    host.run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {_WORK}/build", *specs)
    shutil.copytree(host.path(f"{_WORK}/build/RPMS/noarch"), host.path(folder), dirs_exist_ok=True)
    shutil.rmtree(host.path(_WORK))


def make_key(host: chroot.Host, owner: str) -> str:
    path = f"/etc/pki/rpm-gpg/RPM-GPG-KEY-{owner}"
    host.path(path).parent.mkdir(parents=True, exist_ok=True)
    host.run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", owner, "rsa2048", "sign", "never")
    host.run("gpg", "--batch", "--armor", "--output", path, "--export", owner)
    return path


def sign(host: chroot.Host, owner: str, folder: str) -> None:
    paths = [f"{folder}/{path.name}" for path in sorted(host.path(folder).glob("*.rpm"))]
    # Debian's rpm looks for gpg under a path that it does not have.
    host.run("rpmsign", "--define", "__gpg /usr/bin/gpg", "--define", f"_gpg_name {owner}", "--addsign", *paths)


def forget_keys(host: chroot.Host) -> None:
    """Removes the secret halves, and ends the agent that held them."""
    host.run("gpgconf", "--kill", "all")
    shutil.rmtree(host.path("/root/.gnupg"))


def _options(module: str) -> str:
    return f"options {module} uacce_mode=2 pf_q_num=256"


def _scriptlets(kernel: str) -> dict[str, str]:
    unload = "\n".join(f"modprobe -r {name} >/dev/null 2>&1 || true" for name in reversed(modulefiles.DRIVER))
    load = [f"modprobe {name}{' uacce_mode=2 pf_q_num=256' * (name in _KINDS)}" for name in modulefiles.DRIVER]
    write = [f"echo '{_options(name)}' > /etc/modprobe.d/{name}.conf" for name in _KINDS]
    delete = [f"rm -f /lib/modules/{kernel}/extra/{name}.ko /etc/modprobe.d/{name}.conf" for name in modulefiles.DRIVER]
    index = f"depmod -a {kernel} || true"
    return {
        "%pre": f"{unload}\nrm -rf /usr/local/lib/libwd.*",
        "%post": "\n".join((index, *load, *write, "ldconfig")),
        "%preun": unload,
        "%postun": "\n".join(('if [ "$1" = 0 ]; then', *delete, index, "fi", "ldconfig")),
    }
