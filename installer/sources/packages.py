"""Modules in rpm packages, such as KAE's own kae-driver, and their dependencies."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from installer import change_steps, sources
from installer.decide import desired
from installer.host import digests, pci, record, rpm
from runtime import driver_config, driver_work, errors

_MODULE = re.compile(r"/(?:usr/)?lib/modules/([^/]+)/(?:.*/)?([^/]+)\.ko(?:\.\w+)?")


class Packages:
    """The source packages."""

    def __init__(self, context: sources.Context, stated: driver_config.Packages) -> None:
        self._context, self._stated = context, stated
        self._host = context.host
        self._names = driver_work.packages(context.settings)

    def fingerprint(self) -> str:
        """Return the names, as the content of a repository is unknown before the download; but for the image's own."""
        folder = self._context.image / sources.IMAGE_PACKAGES
        held = sorted(folder.rglob("*.rpm")) if self._stated.is_in_image else []
        return "\n".join([*self._names, *(f"{path.name} {digests.of_file(path)}" for path in held)])

    def lacks(self) -> str:
        """Say that nobody knows: packages hold modules for one kernel, and only a download shows which."""
        return f"{', '.join(self._names)} may hold no modules for it"

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return the steps that download and inspect the packages."""
        asked = " and ".join(f"'{url}'" for url in self._stated.repositories) or "the node's own repositories"
        checked = "checks their signatures" if self._stated.gpg_check else "does not check their signatures"
        what = f"{', '.join(self._names)} and dependencies"
        downloads = f"Downloads {what} with the host's dnf from {asked}, and {checked}."
        inspects = f"Checks that they contain modules for {self._context.kernel}, and replace no other package."
        return (
            change_steps.Step("download-packages", downloads, lambda: self._download(folder)),
            change_steps.Step("inspect-packages", inspects, lambda: self._inspect(folder)),
        )

    def _download(self, folder: str) -> None:
        asked = sources.repositories(self._context, self._stated)
        sources.bring_packages(self._context, self._stated)
        rpm.download(self._host, self._names, asked, self._stated.gpg_check, f"{folder}/packages")

    def _inspect(self, folder: str) -> None:
        files = sorted(self._host.resolved(f"{folder}/packages").glob("*.rpm"))
        brought = rpm.described(self._host, [f"{folder}/packages/{path.name}" for path in files])
        self._refuse_replacements(brought)
        modules = {nvra: self._modules(f"{folder}/packages/{nvra}.rpm") for nvra in brought.values()}
        settings, kernel = self._context.settings, self._context.kernel
        needed = desired.modules(settings, pci.functions(self._host, settings))
        held = set().union(*(kernels.get(kernel, set()) for kernels in modules.values()))
        missing = [name for name in needed if name not in held]
        if not missing:
            return
        for package, kernels in modules.items():
            for other, names in sorted(kernels.items()):
                if other != kernel and names.intersection(missing):
                    raise errors.Failure(
                        f"The package {package} holds modules for kernel {other}; the node runs {kernel}."
                    )
        raise errors.Failure(
            f"No module {', '.join(missing)} for kernel {kernel} is in {', '.join(modules)}: name the package that"
            " holds it in source.packages.names, too."
        )

    def _refuse_replacements(self, brought: dict[str, str]) -> None:
        """Refuse dependencies that replace packages of the host, which a rollback could not restore."""
        known = record.read(self._host)
        ours = set(known.installed.packages) if known.installed is not None else set()
        present = rpm.installed(self._host, tuple(brought))
        for name, nvra in sorted(brought.items()):
            old = present.get(name, nvra)
            if old != nvra and old not in ours and not _is_named(name, nvra, self._names):
                raise errors.Failure(
                    f"The dependency {nvra} would replace {old} of the host: update the node first, or name it"
                    " in source.packages.names."
                )

    def _modules(self, path: str) -> dict[str, set[str]]:
        """Return the modules in a package, by kernel."""
        by_kernel: dict[str, set[str]] = {}
        for match in filter(None, map(_MODULE.fullmatch, rpm.files_of(self._host, path))):
            by_kernel.setdefault(match[1], set()).add(match[2].replace("-", "_"))
        return by_kernel


def _is_named(name: str, nvra: str, names: Iterable[str]) -> bool:
    """Return whether a name selects a package (dnf(8), Specifying Packages)."""
    full = PurePosixPath(nvra)
    without_release = full.stem.rpartition("-")[0]
    return not {name, f"{name}{full.suffix}", without_release, full.stem, nvra}.isdisjoint(names)
