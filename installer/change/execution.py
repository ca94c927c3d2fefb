"""The execution of steps."""

import threading
import time
from collections.abc import Callable, Iterable

from installer.decide import change_steps
from runtime import process

Progress = Callable[[change_steps.Step, str, float], None]
"""Called with each step, its event (begun, done or failed), and the seconds that it took."""


def run(steps: Iterable[change_steps.Step], progress: Progress, stop: threading.Event | None = None) -> None:
    """Run the steps in order, and report each; once `stop` is set, no further step begins.

    Raises:
        process.Cancelled: `stop` is set.
        errors.Failure: A step's own.
    """
    for step in steps:
        if stop is not None and stop.is_set():
            raise process.Cancelled(f"The installer ends, so the step {step.name} does not begin.")
        began = time.monotonic()
        progress(step, "begun", 0)
        try:
            step.act()
        except Exception:
            progress(step, "failed", time.monotonic() - began)
            raise
        progress(step, "done", time.monotonic() - began)
