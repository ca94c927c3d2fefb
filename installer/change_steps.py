"""Steps of a change, each with a name and a reason, and their execution."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from runtime import process


@dataclass(frozen=True, slots=True)
class Step:
    """An action on the host or on the store of drivers; it may run twice, as the next run repeats it after a kill."""

    name: str
    """In the imperative, such as unload-modules; a label in metrics, so never with a value in it."""
    reason: str
    """One sentence with the action and its reason."""
    act: Callable[[], object] = field(compare=False, repr=False)
    """Raises `errors.Failure`."""
    queues: bool = False
    """True when it waits in the queue for a Lease, which is no failure, and may run many times an hour."""


Progress = Callable[[Step, str, float], None]
"""Called with each step, its event (begun, done or failed), and the seconds since the step before it ended."""


def run(steps: Iterable[Step], progress: Progress, stop: threading.Event | None = None) -> None:
    """Run the steps in order, and report each; raise `process.Cancelled` before the next one once `stop` is set."""
    # What is looked up between two steps is a part of the second one: their sum is the time of the change.
    began = time.monotonic()
    for step in steps:
        if stop is not None and stop.is_set():
            raise process.Cancelled(f"The installer ends, so the step {step.name} does not begin.")
        progress(step, "begun", 0)
        try:
            step.act()
        except Exception:
            progress(step, "failed", time.monotonic() - began)
            raise
        ended = time.monotonic()
        progress(step, "done", ended - began)
        began = ended
