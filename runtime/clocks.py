"""Clocks that do not depend on the wall clock."""

import time


def since_boot_s() -> float:
    """Return the seconds since boot, with those of suspend, which CLOCK_MONOTONIC leaves out (clock_gettime(2))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
