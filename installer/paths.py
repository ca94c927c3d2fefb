"""Paths of the installer's own files on the host: KAE's, or those of another recipe, in folders of its own."""

from dataclasses import dataclass

LOCK = "/run/kae/installer.lock"
"""The lock of the host: whoever holds it may change the host, for KAE or for another recipe."""

RECIPES = "/var/lib/kae/recipes"
"""The folder with a folder for each recipe that was installed here but KAE."""

LIBRARIES = "/opt/kae"
"""KAE's user-space libraries and engines, which containers mount: a link to a driver's own tree."""

PACKAGES = "/var/lib/kae/packages"
"""The packages of the image, as long as the host's dnf reads them."""

CRIO = "/run/crio"
"""The folder of CRI-O's socket, on a host whose container runtime it is."""


@dataclass(frozen=True, slots=True)
class Own:
    """The paths of one stack: None stands for KAE."""

    recipe: str | None = None

    @property
    def record(self) -> str:
        """The record of the installed driver and of a change in progress."""
        return f"{self._stored}/driver.json"

    @property
    def drivers(self) -> str:
        """The store: one folder for each driver that can be installed without the network."""
        return f"{self._stored}/drivers"

    @property
    def build(self) -> str:
        """The folder in which modules are compiled; the container's own root is read-only."""
        return f"{self._stored}/build"

    @property
    def lock(self) -> str:
        """The lock of the one installer of this stack."""
        return f"{self._running}/driver.lock"

    @property
    def changing(self) -> str:
        """The announcement: while it exists, the device plugin allocates no device."""
        return f"{self._running}/driver-changing"

    @property
    def retry(self) -> str:
        """The request of `retry` to try again without waiting; only the running installer writes the record."""
        return f"{self._running}/retry"

    @property
    def links(self) -> str:
        """The device plugin's links to device nodes, which the kubelet resolves when a container restarts."""
        return f"{self._running}/dev"

    @property
    def tree(self) -> str:
        """The beginning of the name of a driver's tree of user-space files below /opt, which ends with its id."""
        # A recipe's name has no dot, and a policy's paths have no tilde, so no tree of another recipe begins with it.
        return f".kae.{self.recipe}~" if self.recipe else ".kae-"

    @property
    def rule(self) -> str:
        """The udev rule that lets users other than root use the device nodes."""
        return f"/etc/udev/rules.d/70-{self._name}.rules"

    @property
    def blocked(self) -> str:
        """While it exists, no boot loads the driver by itself: udev obeys `blacklist`, modprobe by name does not."""
        # No module's name has a hyphen, so no options file has this name.
        return f"/etc/modprobe.d/{self._name}{'-' if self.recipe else ''}-unproved.conf"

    @property
    def updates(self) -> str:
        """The folder of installed modules below that of a kernel: depmod prefers updates/ by default (depmod.d(5))."""
        return f"updates/{self._name}"

    def options(self, module: str) -> str:
        """Return the options file of a module; KAE's own scripts name theirs in the same way."""
        return f"/etc/modprobe.d/{f'{self._name}-' if self.recipe else ''}{module}.conf"

    def library(self, name: str) -> str:
        """Return the path of a file of user space, whose name is below /opt for a recipe, and below /opt/kae."""
        return f"/opt/{name}" if self.recipe else f"{LIBRARIES}/{name}"

    def modules(self, kernel: str) -> str:
        """Return the folder of installed modules."""
        return f"/lib/modules/{kernel}/{self.updates}"

    @property
    def _name(self) -> str:
        return f"kae-{self.recipe}" if self.recipe else "kae"

    @property
    def _stored(self) -> str:
        return f"{RECIPES}/{self.recipe}" if self.recipe else "/var/lib/kae"

    @property
    def _running(self) -> str:
        return f"/run/kae/recipes/{self.recipe}" if self.recipe else "/run/kae"


KAE = Own()


KAE_NAME = "kae"
"""The name of KAE as a recipe."""


def own_modules(kernel: str) -> str:
    """Return the folder of the kernel's own modules, with a slash at its end."""
    return f"/lib/modules/{kernel}/kernel/"
