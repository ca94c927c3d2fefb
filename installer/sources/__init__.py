"""The sources of drivers: one module for each, behind one interface.

A source fills a folder of the store and does not touch the running driver, so that a missing mirror, header or
signature fails before any pod is evicted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from installer import config, paths
from installer.decide import change_steps
from installer.host import chroot, digests, kmod, rpm
from installer.sources import unpack
from runtime import errors, readings

CREDENTIALS = "run/credentials"
"""The folder in the container with the keys of the Secret of the repositories."""


IMAGE_PACKAGES = "opt/packages"
"""The repository in the image, for hosts without a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The inputs of a source."""

    host: chroot.Host
    image: Path
    """The image's root, / except in tests: /opt/lib/modules, /opt/src/kae and /opt/kae are below it."""
    settings: config.Config
    kernel: str
    """The release of the host's running kernel, as `uname -r` prints it."""
    payloads: Path = Path("/payload")
    """The folder with a folder of files for each payload of the config."""

    @property
    def brought(self) -> dict[str, list[Path]]:
        """Return the folders with user-space files, by the names that their files have in a driver's tree.

        KAE's libraries are in the image; each folder of a recipe is in a payload.
        """
        if not self.settings.recipe:
            return {"": [self.image / "opt/kae"]}
        payloads = [self.payloads / payload.name for payload in self.settings.payloads]
        return {
            file.to.removeprefix("/opt/"): [
                folder
                for payload in payloads
                # A link of the payload may lead out of it, to files of this image or of the host.
                if (folder := payload / file.from_.lstrip("/")).is_dir()
                and folder.resolve().is_relative_to(payload.resolve())
            ]
            for file in self.settings.files
        }


def repositories(context: Context, stated: config.Repositories) -> rpm.Repositories:
    """Return the repositories of a source, with the user of its Secret; raise `Failure` if a key of it is unusable."""
    if stated.credentials_secret is None:
        return rpm.Repositories(stated.repositories)
    user = {}
    for key in ("username", "password"):
        user[key] = (readings.text(context.image / CREDENTIALS / key) or "").strip()
        if not user[key] or "\n" in user[key] or "$" in user[key]:
            raise errors.Failure(
                f"The Secret '{stated.credentials_secret}' has no key '{key}' with one line of ASCII without '$', which"
                " dnf takes for a variable: correct it, as the repositories of the driver's source are read with it."
            )
    return rpm.Repositories(stated.repositories, **user)


def is_in_image(stated: config.Repositories) -> bool:
    """Return whether a repository of a source is the one in the image."""
    return f"file://{paths.PACKAGES}" in (url.rstrip("/") for url in stated.repositories)


def bring_packages(context: Context, stated: config.Repositories) -> None:
    """Copy the repository in the image to where the host's dnf reads it, if the source asks for it.

    It goes with the rest of a staging. Raises `Failure` if the image has none.
    """
    folder = context.image / IMAGE_PACKAGES
    if not is_in_image(stated):
        return
    if not (folder / "repodata/repomd.xml").is_file():
        raise errors.Failure(
            f"The image has no repository at /{IMAGE_PACKAGES}, for which 'file://{paths.PACKAGES}' stands: build one"
            " that has, or name another repository."
        )
    for path in digests.files(folder):
        context.host.copy(path, f"{paths.PACKAGES}/{path.relative_to(folder)}")


def module_files(folder: Path) -> list[Path]:
    """Return the module files below a folder, plain and compressed."""
    return [path for path in sorted(folder.rglob("*.ko*")) if path.name.endswith((".ko", *unpack.SUFFIXES))]


def place(context: Context, files: Iterable[Path], folder: str, lacking: str) -> None:
    """Copy the modules to load into a folder of the store, each plain and with the kernel's name.

    A recipe's come with those that they need, as far as these are among `files` and not left to the kernel. `lacking`
    is the message of the `Failure` for modules that are not, in which {} stands for their names.
    """
    modules: dict[str, Path] = {}
    for path in files:
        name, other = kmod.name_of(path.name), modules.get(kmod.name_of(path.name), path)
        if context.settings.recipe and not digests.same(path, other):
            raise errors.Failure(f"Module {name} is there twice, as '{other}' and as '{path}': keep one of them.")
        modules[name] = path
    waiting = list(context.settings.modules)
    if missing := [name for name in waiting if name not in modules]:
        raise errors.Failure(lacking.format(", ".join(missing)))
    placed: set[str] = set()
    while waiting:
        name = waiting.pop(0)
        if name in modules and name not in {*placed, *context.settings.left_out}:
            placed.add(name)
            target = f"{folder}/modules/{name}.ko"
            unpack.module(context.host, modules[name], target)
            waiting += kmod.depends(context.host, target) if context.settings.recipe else ()


class Source(Protocol):
    """A source of drivers."""

    def fingerprint(self) -> str:
        """Return a text that identifies the content to stage, apart from the config."""

    def lacks(self) -> str:
        """Return what it has not for the kernel, as far as that is known without a download; empty for nothing."""

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return the steps that fill an empty folder of the host: modules/*.ko and packages/*.rpm.

        Each raises `errors.Failure`, in one sentence for people, if the source has no driver for this host.
        """
