"""Where a driver comes from: one module a source, behind one interface.

A source fills a folder of the store, and touches nothing that runs: whatever may fail for want of a mirror, a header
or a signature fails here, before anybody is evicted.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from installer import config
from installer.decide import change_steps
from installer.host import chroot


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a source works with."""

    host: chroot.Host
    image: Path
    """The image's root, / but in tests: /opt/lib/modules, /opt/src/kae and /opt/kae lie below it."""
    settings: config.Config
    kernel: str
    """The release of the host's running kernel, as `uname -r` prints it."""


class Source(Protocol):
    """A source of drivers."""

    def fingerprint(self) -> str:
        """A text that differs where what would be staged differs, as far as the config does not say it."""

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Fill an empty folder of the host: modules/*.ko for /lib/modules, packages/*.rpm for the host's rpm.

        Each raises `errors.Failure` where there is no such driver for this host, in one sentence for people.
        """
