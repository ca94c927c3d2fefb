"""Keep a device that fails again and again from being offered in between.

Every change of a list reaches the scheduler, and a pod that gets such a device soon fails; so after a few faults the
device has to be sound for a while. Only faults of the hardware count: an unbound driver or a driver change is wanted.
"""

from dataclasses import dataclass, replace

FAULTS = 3
"""As many faults within the window damp a device."""

WINDOW_S = 600.0
CALM_S = 300.0
"""For how long a damped device has to be sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a device did lately; times in seconds of a clock that never jumps."""

    faulty: bool = False
    began: tuple[float, ...] = ()
    """When its latest faults began."""
    damped: bool = False
    sound_since: float | None = None


def step(history: History, *, faulty: bool, now: float) -> History:
    """The history with what is seen now."""
    began = tuple(time for time in history.began if now - time < WINDOW_S)
    if faulty:
        if not history.faulty:
            began = (*began, now)[-FAULTS:]
        return History(faulty=True, began=began, damped=history.damped or len(began) == FAULTS)
    since = now if history.faulty or history.sound_since is None else history.sound_since
    if history.damped and now - since >= CALM_S:
        return History(sound_since=since)
    return replace(history, faulty=False, began=began, sound_since=since)
