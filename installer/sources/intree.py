"""The kernel's own modules: nothing is brought but the libraries."""

from installer.decide import change_steps
from installer.sources import Context


class InTree:
    """The source inTree."""

    def __init__(self, context: Context) -> None:
        """Needs nothing of the host."""
        del context

    def fingerprint(self) -> str:
        """The kernel decides, and the wish names it already."""
        return ""

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """None: there is nothing to fetch."""
        del folder
        return ()
