"""The kernel's own modules; the image contributes only libraries."""

from installer import sources
from installer.decide import change_steps


class InTree:
    """The source inTree."""

    def __init__(self, context: sources.Context) -> None:
        self._folder = context.host.path(f"/lib/modules/{context.kernel}/kernel")

    def fingerprint(self) -> str:
        """Return nothing: the desired digest already contains the kernel."""
        return ""

    def lacks(self) -> str:
        """Look for hisi_qm, which the modules of all kinds need."""
        return "" if any(self._folder.rglob("hisi_qm.ko*")) else "it has no modules of its own"

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return no steps: there is nothing to fetch."""
        del folder
        return ()
