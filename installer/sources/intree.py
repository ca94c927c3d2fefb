"""The kernel's own modules; the image contributes only libraries."""

from installer.decide import change_steps
from installer.sources import Context


class InTree:
    """The source inTree."""

    def __init__(self, context: Context) -> None:
        """Ignore the context."""
        del context

    def fingerprint(self) -> str:
        """Return nothing: the desired digest already contains the kernel."""
        return ""

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return no steps: there is nothing to fetch."""
        del folder
        return ()
