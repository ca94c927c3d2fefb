"""Steps: what the installer does, in pieces that have a name; running several is the caller's."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that is done to the host, or to the store of drivers.

    Doing it twice changes nothing the second time, so that after a kill it is simply done again.
    """

    name: str
    """In the imperative, such as unload-modules; a label in metrics, so never with a value in it."""
    reason: str
    """One sentence: what it does here, and why."""
    act: Callable[[], object] = field(compare=False, repr=False)
    """Raises `errors.Failure`."""
