"""The sources of drivers: one module for each, behind one interface.

A source fills a folder of the store and does not touch the running driver, so that a missing mirror, header or
signature fails before any pod is evicted.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from installer import config
from installer.decide import change_steps
from installer.host import chroot


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The inputs of a source."""

    host: chroot.Host
    image: Path
    """The image's root, / except in tests: /opt/lib/modules, /opt/src/kae and /opt/kae are below it."""
    settings: config.Config
    kernel: str
    """The release of the host's running kernel, as `uname -r` prints it."""


class Source(Protocol):
    """A source of drivers."""

    def fingerprint(self) -> str:
        """Return a text that identifies the content to stage, apart from the config."""

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return the steps that fill an empty folder of the host: modules/*.ko and packages/*.rpm.

        Each raises `errors.Failure`, in one sentence for people, if the source has no driver for this host.
        """
