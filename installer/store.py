"""The store of drivers on the host: each is complete, and can be installed without the network."""

import hashlib
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from installer import change_steps, paths, sources
from installer.decide import desired
from installer.host import chroot, digests, host_state, kmod, record
from runtime import driver_work, errors

_MARGIN_BYTES = 64 << 20
"""The space that must stay free beyond the files of the image."""

_MARGIN_FILES = 64

_SIGNED = b"~Module signature appended~\n"


class Store:
    """The folders of the home's drivers."""

    def __init__(self, context: sources.Context, source: sources.Source) -> None:
        self._context = context
        self._host = context.host
        self._source = source
        self._drivers = context.host.own.drivers
        self._staging = f"{self._drivers}/.new"

    def find(self, digest: str) -> record.Driver | None:
        """Return the complete driver of this digest and of all modules to load, with the options of the config."""
        modules = {*self._context.settings.names}
        for driver in record.stored(self._host):
            # A kind may have been enabled since; what is dropped takes along others.
            lacks = driver.wanted and not modules.issubset(driver.wanted)
            if self._context.settings.brings_along:
                lacks = modules != {*driver.wanted}
            if driver.digest == digest and not lacks and self.has(driver):
                return msgspec.structs.replace(driver, **desired.loading(self._context.settings))
        return None

    def steps(self, digest: str) -> tuple[change_steps.Step, ...]:
        """Return the steps that stage the driver of this digest."""
        what = f"{self._context.settings.source.name} {self._context.settings.driver_version}"
        prepares = "Creates a folder for the new driver; the running driver is not touched until it is complete."
        stores = f"Checks the modules of {what} against the running kernel, and stores them with the libraries."
        return (
            change_steps.Step("prepare-store", prepares, self._prepare),
            *self._source.steps(self._staging),
            change_steps.Step("store-driver", stores, lambda: self._finish(digest)),
        )

    def keep(self, current: host_state.HostState) -> record.Driver:
        """Store the driver of others for a rollback, without the kernel's own modules."""
        places = [current.files[name].path for name in sorted(current.foreign_files())]
        text = repr(sorted((name, file.path, file.build) for name, file in current.files.items()))
        driver = record.Driver(
            id=f"kept-{hashlib.sha256(text.encode()).hexdigest()[:8]}",
            digest="",
            source="kept",
            version=next(filter(None, (module.version for module in current.loaded.values())), "an unknown version"),
            kernel=current.kernel,
            modules={Path(place).name: place for place in places},
            options=dict(current.options),
            digests={name: file.digest for name, file in current.files.items()},
        )
        if not self.has(driver):  # A host in the queue runs this every few seconds.
            self.mend(driver)
        return driver

    def has(self, driver: record.Driver) -> bool:
        """Return whether the store has all files of a driver as they were recorded."""
        folder = self.folder(driver)
        return all(digests.has(folder / name, digest) for name, _, digest in _files(self._host.own, driver))

    def mend(self, driver: record.Driver) -> None:
        """Store the installed driver again, from its files in place; raise `Failure` if those have changed."""
        # A module of others may be a link (weak-updates) to a file that goes with its package.
        followed = {place: self._host.resolved(place) for place in driver.modules.values()}
        files = [
            (name, followed.get(place, self._host.path(place)), digest)
            for name, place, digest in _files(self._host.own, driver)
        ]
        if not all(digests.has(source, digest) for _, source, digest in files):
            raise errors.Failure(
                f"'{self._drivers}/{driver.id}' on the host is damaged or gone, and the installed files cannot stand"
                " in for it, so a failure could not bring the driver back: put this folder back, or set driver.state to"
                " Absent, and then to Present."
            )
        self._prepare()
        for name, source, _ in files:
            self._stage(source, name)
        self._close(driver)

    def unsigned(self, driver: record.Driver) -> list[str]:
        """Return the stored modules that end without a signature (MODULE_SIG_STRING of linux/module_signature.h)."""
        folder = self.folder(driver) / "modules"
        return [name for name in sorted(driver.modules) if not (folder / name).read_bytes().endswith(_SIGNED)]

    def folder(self, driver: record.Driver) -> Path:
        """Return the local path of a driver's folder."""
        return self._host.resolved(f"{self._drivers}/{driver.id}")

    def prune(self, needed: Collection[record.Driver | None]) -> None:
        """Remove every driver but these, and the rest of an interrupted staging."""
        ids = {driver.id for driver in needed if driver is not None}
        folder = self._host.resolved(self._drivers)
        if folder.is_dir():
            for path in sorted(folder.iterdir()):
                if path.name not in ids:
                    self._host.remove_folder(f"{self._drivers}/{path.name}")
        self.discard()

    def discard(self) -> None:
        """Remove the rest of a failed staging, which may fill the disk; raise `Failure` if a part of it stays."""
        self._host.remove_folder(self._staging)
        self._host.remove_folder(self._host.own.build)
        self._host.remove_folder(paths.PACKAGES)

    def _prepare(self) -> None:
        tops = [folder for folders in self._context.brought.values() for folder in folders]
        tops.append(self._context.image / driver_work.MODULES.lstrip("/") / self._context.kernel)
        sizes, entries = zip(*map(digests.weight, tops), strict=True)
        self._host.remove_folder(self._staging)
        for folder in (f"{self._staging}/modules", f"{self._staging}/packages"):
            with chroot.changing(folder), self._host.held(folder, made=True) as new:
                new.mkdir()
                disk = os.statvfs(new)
        if short := digests.shortage(disk, sum(sizes) + _MARGIN_BYTES, sum(entries) + _MARGIN_FILES):
            raise errors.Failure(f"The disk of '{self._drivers}' has {short}.")

    def _finish(self, digest: str) -> None:
        context, settings = self._context, self._context.settings
        staged = self._host.resolved(self._staging)
        names = sorted(path.name for path in (staged / "modules").glob("*.ko"))
        packages = sorted((staged / "packages").glob("*.rpm"))
        for name in names:
            try:
                kernel = kmod.built_for(self._host, f"{self._staging}/modules/{name}")
            except chroot.CommandFailed as error:
                raise errors.Failure(f"'{name}' is no kernel module: {error}") from error
            if kernel != context.kernel:
                raise errors.Failure(f"'{name}' was built for kernel {kernel}; the node runs {context.kernel}.")
        version = re.sub(r"[^A-Za-z0-9._-]", "_", settings.driver_version)[:40]
        ours = self._host.own.modules(context.kernel)
        # A driver with other modules of the same content gets another folder: a rollback may need the previous one.
        identity = hashlib.sha256(f"{digest} {' '.join(settings.names)}".encode()).hexdigest()
        self._close(
            record.Driver(
                id=f"{settings.source.name}-{version}-{identity[:8]}",
                digest=digest,
                source=settings.source.name,
                version=settings.driver_version,
                kernel=context.kernel,
                modules={name: f"{ours}/{name}" for name in names},
                digests={name.removesuffix(".ko"): digests.of_file(staged / "modules" / name) for name in names}
                | {path.name: digests.of_file(path) for path in packages},
                packages=tuple(path.stem for path in packages),
                libraries=self._store_libraries(),
                files=tuple(file.to for file in settings.files),
                wanted=settings.names,
                **desired.loading(settings),
            )
        )

    def _stage(self, source: Path, name: str) -> None:
        self._host.copy(source, f"{self._staging}/{name}", mode=0o755 if os.access(source, os.X_OK) else 0o644)

    def _store_libraries(self) -> dict[str, str]:
        stored = {}
        for part, folders in self._context.brought.items():
            if len(folders) != 1:
                held = f"is in several payloads ({', '.join(map(str, folders))})" if folders else "is in no payload"
                raise errors.Failure(
                    f"The folder for '{self._host.own.library(part)}' of the host {held}: it has to be in exactly one."
                )
            for path in digests.files(folders[0]):
                name = str(part / path.relative_to(folders[0]))
                self._stage(path, f"libraries/{name}")
                stored[name] = digests.of_file(path)
        return stored

    def _close(self, driver: record.Driver) -> None:
        """Turn the staged folder into a driver of the store: write its description last, then rename it."""
        text = msgspec.json.format(msgspec.json.encode(driver), indent=2).decode()
        self._host.write(f"{self._staging}/driver.json", f"{text}\n")
        target = f"{self._drivers}/{driver.id}"
        self._host.remove_folder(target)
        staged = self._host.resolved(self._staging)
        self._host.sync((staged, *staged.rglob("*")))  # dnf and the compiler do not.
        self._host.rename(self._staging, target)
        self._host.sync((self._host.resolved(self._drivers),))


def _files(own: paths.Own, driver: record.Driver) -> Iterator[tuple[str, str, str]]:
    """Yield a driver's files: path in its folder, place on the host unless rpm knows it, and digest if recorded."""
    for name, place in driver.modules.items():
        yield f"modules/{name}", place, driver.digests.get(kmod.name_of(name), "")
    for name, digest in driver.libraries.items():
        yield f"libraries/{name}", own.library(name), digest
    for package in driver.packages:
        yield f"packages/{package}.rpm", "", driver.digests.get(f"{package}.rpm", "")
