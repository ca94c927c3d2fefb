"""Steps of a change, each with a name and a reason; the caller runs them."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """An action on the host or on the store of drivers.

    It is idempotent: after a kill, the next run repeats it.
    """

    name: str
    """In the imperative, such as unload-modules; a label in metrics, so never with a value in it."""
    reason: str
    """One sentence with the action and its reason."""
    act: Callable[[], object] = field(compare=False, repr=False)
    """Raises `errors.Failure`."""
    queues: bool = False
    """True when it waits in the queue for a Lease, which is no failure, and may run many times an hour."""
