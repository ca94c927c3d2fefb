"""The kernel's own modules; the image contributes only libraries."""

from installer import sources
from installer.decide import change_steps, desired
from installer.host import kmod


class InTree:
    """The source inTree."""

    def __init__(self, context: sources.Context) -> None:
        # A kernel may lack those of kinds that the host does not have.
        self._needed = desired.modules(context.settings, ())
        self._folder = context.host.path(f"/lib/modules/{context.kernel}/kernel")

    def fingerprint(self) -> str:
        """Return nothing: the desired digest already contains the kernel."""
        return ""

    def lacks(self) -> str:
        """Look for the modules in the kernel's own folder."""
        held = {kmod.name_of(path.name) for path in self._folder.rglob("*.ko*")}
        return "" if held.issuperset(self._needed) else "it has no modules of its own"

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return no steps: there is nothing to fetch."""
        del folder
        return ()
