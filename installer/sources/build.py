"""Modules compiled on the node, against the kernel-devel package of exactly its running kernel.

The driver's source is in the image, at /opt/src/<recipe> or, for several kernels, at /opt/src/<recipe>/<major.minor>;
its Makefile takes the kernel's build folder as KERNEL_PATH, as KAE's own does.
"""

import os
import re
import shutil
from pathlib import Path, PurePosixPath

from installer import change_steps, sources
from installer.host import chroot, digests, rpm
from runtime import driver_config, errors, process, readings

_COMPILE_S = 1800
_SHOWN = 5
"""The lines of the compiler's output that an error quotes."""


class Build:
    """The source build."""

    def __init__(self, context: sources.Context, stated: driver_config.Build) -> None:
        self._context, self._stated = context, stated
        self._host = context.host
        self._place = f"opt/src/{context.settings.recipe}"
        tree = context.image / self._place
        match = re.match(r"\d+\.\d+", context.kernel)
        line = tree / match[0] if match else tree
        self._tree = line if line.is_dir() else tree

    def fingerprint(self) -> str:
        """Return the digest of the source tree."""
        return digests.of_folder(self._tree)

    def lacks(self) -> str:
        """Look for the kernel's headers."""
        kernel = self._context.kernel
        return "" if self._release() == kernel else f"kernel-devel-{kernel} is not installed"

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return the steps that install the headers and compile the modules."""
        kernel = self._context.kernel
        installs = f"Installs kernel-devel-{kernel} with the host's package manager, unless it is installed."
        compiles = f"Compiles the driver's source against it, for {kernel}."
        return (
            change_steps.Step("install-kernel-devel", installs, self._install_headers),
            change_steps.Step("compile-modules", compiles, lambda: self._compile(folder)),
        )

    def _headers(self) -> Path:
        """Return the build folder of the running kernel."""
        return self._host.resolved(f"/lib/modules/{self._context.kernel}/build")

    def _release(self) -> str | None:
        return readings.text(self._headers() / "include/config/kernel.release")

    def _install_headers(self) -> None:
        kernel = self._context.kernel
        if self._release() == kernel:
            return
        sources.bring_packages(self._context, self._stated)
        rpm.install_from(self._host, f"kernel-devel-{kernel}", sources.repositories(self._context, self._stated))
        release = self._release()
        if release != kernel:
            found = f"'{self._headers()}' is for {release}" if release else "there are no headers for it"
            raise errors.Failure(
                f"kernel-devel-{kernel} is installed, and still {found}: give the node a repository with exactly this"
                " package."
            )

    def _compile(self, folder: str) -> None:
        if not (self._tree / "Makefile").is_file():
            raise errors.Failure(f"The image has no driver source at /{self._place}: build one from it that has.")
        scratch = self._host.resolved(self._host.own.build)
        try:
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(self._tree, scratch / "source", symlinks=True)
            (scratch / "tmp").mkdir()
        except (OSError, shutil.Error) as error:
            folder = self._host.own.build
            raise errors.Failure(f"The driver's source cannot be copied to '{folder}': {error}.") from error
        self._make(scratch)
        sources.place(
            self._context,
            sources.module_files(scratch),
            folder,
            "The driver's source was compiled, and there is no {}.ko.",
        )

    def _make(self, scratch: Path) -> None:
        command = ("make", f"--jobs={jobs()}", f"KERNEL_PATH={self._headers()}")
        try:
            chroot.execute(
                ("make", "-C", str(scratch / "source"), *command[1:]),
                command,
                process.Limits(timeout_s=_COMPILE_S, stop=self._host.stop),
                # The root of the container is read-only, including /tmp.
                {"TMPDIR": str(scratch / "tmp"), "PATH": os.environ["PATH"]},
            )
        except chroot.CommandFailed as error:
            said = [line for line in error.said.splitlines() if "rror" in line] or error.said.splitlines()
            raise errors.Failure(
                f"The driver's source cannot be compiled for {self._context.kernel}: {'; '.join(said[:_SHOWN])}"
            ) from error


def jobs(root: Path = Path("/")) -> int:
    """Return the CPUs that this container may use: those of its affinity, or fewer by the quota of a cgroup above it.

    Python does not know quotas: cpu.max (Documentation/admin-guide/cgroup-v2.rst), in version 1 cpu.cfs_quota_us. A
    container may see itself as the root of the tree, or at its place in the host's.
    """
    least = len(os.sched_getaffinity(0))
    for line in (readings.text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        base = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        for place in (PurePosixPath(path), *PurePosixPath(path).parents):
            group = base / str(place).lstrip("/")
            old = f"{readings.text(group / 'cpu.cfs_quota_us')} {readings.text(group / 'cpu.cfs_period_us')}"
            quota, _, period = (readings.text(group / "cpu.max") or old).partition(" ")
            if quota.isdecimal() and period.isdecimal():
                least = min(least, -(-int(quota) // int(period)))
    return max(1, least)
