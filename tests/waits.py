"""Waits for what another thread or process does."""

import time
from collections.abc import Callable

LIMIT_S = 600
"""For what never comes: no load makes anything take as long."""


def until(happened: Callable[[], object]) -> None:
    """Wait until something has happened."""
    deadline_s = time.monotonic() + LIMIT_S
    while not happened():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.005)
