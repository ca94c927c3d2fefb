"""The sources of drivers: one module for each, behind one interface.

A source fills a folder of the store and does not touch the running driver, so that a missing mirror, header or
signature fails before any pod is evicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from installer import config, paths
from installer.decide import change_steps
from installer.host import chroot, digests, rpm
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


def place(context: Context, modules: Mapping[str, Path], folder: str, lacking: str) -> None:
    """Copy the modules to load into a folder of the store; raise `Failure` for those that are not there.

    `modules` are files by name. `lacking` is the message, in which {} stands for the names of missing modules.
    """
    missing = [name for name in context.settings.modules if f"{name}.ko" not in modules]
    if missing:
        raise errors.Failure(lacking.format(", ".join(missing)))
    for name in context.settings.modules:
        context.host.copy(modules[f"{name}.ko"], f"{folder}/modules/{name}.ko")


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
