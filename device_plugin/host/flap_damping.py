"""Flap damping: keep a device unhealthy that fails again and again.

Every change of a list reaches the scheduler, and a pod that gets such a device soon fails. So after a few faults the
device must stay without fault for a while. Only hardware faults count: unbinding or changing a driver is intended.
"""

import msgspec
from msgspec.structs import replace

FAULTS = 3
"""The number of faults within the window that damp a device."""

WINDOW_S = 600.0
CALM_S = 300.0
"""The time that a damped device must stay without fault."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The recent faults of a device; times in seconds of a monotonic clock."""

    faulty: bool = False
    began: tuple[float, ...] = ()
    """The times when its latest faults began."""
    damped: bool = False
    sound_since: float | None = None


def is_recent(history: History, now: float) -> bool:
    """Return whether a fault began within the window."""
    return any(now - time < WINDOW_S for time in history.began)


def step(history: History, *, faulty: bool, now: float) -> History:
    """Return the history after one more look at the device."""
    began = tuple(time for time in history.began if now - time < WINDOW_S)
    if faulty:
        if not history.faulty:
            began = (*began, now)[-FAULTS:]
        return History(faulty=True, began=began, damped=history.damped or len(began) == FAULTS)
    since = now if history.faulty or history.sound_since is None else history.sound_since
    if history.damped and now - since >= CALM_S:
        return History(sound_since=since)
    return replace(history, faulty=False, began=began, sound_since=since)
