"""The sources of drivers: one module for each, behind one interface.

A source fills a folder of the store and does not touch the running driver, so that a missing mirror, header or
signature fails before any pod is evicted.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from installer import config
from installer.decide import change_steps
from installer.host import chroot, rpm
from runtime import errors, readings

CREDENTIALS = "run/credentials"
"""The folder in the container with the keys of the Secret of the repositories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The inputs of a source."""

    host: chroot.Host
    image: Path
    """The image's root, / except in tests: /opt/lib/modules, /opt/src/kae and /opt/kae are below it."""
    settings: config.Config
    kernel: str
    """The release of the host's running kernel, as `uname -r` prints it."""


def repositories(context: Context, stated: config.Build | config.Packages | None) -> rpm.Repositories:
    """Return the repositories of a source, with the user of its Secret; raise `Failure` if a key of it is unusable."""
    if stated is None or stated.credentials_secret is None:
        return rpm.Repositories(stated.repositories if stated is not None else ())
    user = {}
    for key in ("username", "password"):
        user[key] = (readings.text(context.image / CREDENTIALS / key) or "").strip()
        if not user[key] or "\n" in user[key] or "$" in user[key]:
            raise errors.Failure(
                f"The Secret '{stated.credentials_secret}' has no key '{key}' with one line of ASCII without '$', which"
                " dnf takes for a variable: correct it, as the repositories of the driver's source are read with it."
            )
    return rpm.Repositories(stated.repositories, **user)


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
