"""The clock since boot, which no change of the wall clock moves, and times for people."""

import time
from datetime import UTC, datetime


def since_boot_s() -> float:
    """Return the seconds since boot, with those of suspend, which CLOCK_MONOTONIC leaves out (clock_gettime(2))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def utc(since_epoch_s: float | None = None, timespec: str = "seconds") -> str:
    """Return a time, by default now, in the format of RFC 3339 with `Z`; `timespec` is that of datetime.isoformat."""
    moment = datetime.now(UTC) if since_epoch_s is None else datetime.fromtimestamp(since_epoch_s, UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
